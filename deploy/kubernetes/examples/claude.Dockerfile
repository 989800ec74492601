# Claude Code, and what it needs to work on a repository. coop is not in it: an init container brings it.
#   docker build -t registry.example/claude-code:2.1.197 -f deploy/kubernetes/examples/claude.Dockerfile deploy/kubernetes/examples
FROM docker.io/library/node:22-slim
RUN apt-get update && \
    apt-get install --yes --no-install-recommends ca-certificates git ripgrep && \
    rm -rf /var/lib/apt/lists/* && \
    npm install --global --no-audit --no-fund @anthropic-ai/claude-code@2.1.197 && \
    groupadd --gid 65532 agent && \
    useradd --uid 65532 --gid 65532 --no-create-home agent
# Its root cannot be written: another version is another image.
ENV DISABLE_AUTOUPDATER=1
USER 65532:65532
