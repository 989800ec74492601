# Claude Code, and what it needs to work on a repository. coop is not in it: an init container brings it.
#   docker build -t registry.example/claude-code:2.1.197 -f deploy/kubernetes/examples/claude.Dockerfile deploy/kubernetes/examples
# Tags move: --build-arg NODE=docker.io/library/node@sha256:… names an image that does not.
ARG NODE=docker.io/library/node:22-slim
FROM ${NODE}
RUN apt-get update && \
    apt-get install --yes --no-install-recommends ca-certificates git ripgrep && \
    rm -rf /var/lib/apt/lists/* && \
    groupadd --gid 65532 agent && \
    useradd --uid 65532 --gid 65532 --no-create-home agent && \
    install --directory --owner agent --group agent /opt/claude
# As the agent's user and without scripts of packages: what they would do is to put the program for this machine in place, which
# the link does.
USER 65532:65532
RUN HOME=/tmp npm install --prefix /opt/claude --ignore-scripts --no-audit --no-fund @anthropic-ai/claude-code@2.1.197 && \
    mkdir /opt/claude/bin && \
    ln -s "$(ls /opt/claude/node_modules/@anthropic-ai/claude-code-linux-*/claude | grep -v musl)" /opt/claude/bin/claude && \
    /opt/claude/bin/claude --version && rm -rf /tmp/.npm
ENV PATH=/opt/claude/bin:$PATH
# Its root cannot be written: another version is another image.
ENV DISABLE_AUTOUPDATER=1
