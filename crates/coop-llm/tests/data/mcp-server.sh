# An MCP server over its standard streams with one tool. It and its child hold the FIFO `alive` open.
mkfifo alive
(exec 3>alive; echo begun >&3; sleep 1000) &
while read -r line; do
    id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
    say() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
    text() { say "\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"$1\"}],\"isError\":$2}"; }
    case "$line" in
    *'"method":"initialize"'*)
        version=$(printf '%s' "$line" | sed -n 's/.*"protocolVersion":"\([^"]*\)".*/\1/p')
        say "\"result\":{\"protocolVersion\":\"$version\",\"capabilities\":{\"tools\":{}},\"serverInfo\":{\"name\":\"s\",\"version\":\"1\"}}"
        ;;
    *'"method":"tools/list"'*)
        say '"result":{"tools":[{"name":"echo","description":"Says it again.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}'
        ;;
    *'"text":"fail"'*) text 'it failed' true ;;
    *'"text":"refuse"'*) say '"error":{"code":-32602,"message":"no such thing"}' ;;
    *'"method":"tools/call"'*)
        said=$(printf '%s' "$line" | sed -n 's/.*"text":"\([^"]*\)".*/\1/p')
        text "$said $OPENAI_API_KEY" false
        ;;
    esac
done
