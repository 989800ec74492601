# coop's image: one static program, the certificates by which it trusts others, and a name for the user it runs as. It needs no
# capability, and writes only where a volume is.
#   buildah build -t localhost/coop:0.1.0 .        docker build -t localhost/coop:0.1.0 .
# An agent's image with coop in it: --target agent --build-arg BASE=IMAGE. With a program that is built already, in the folder
# OUT/usr/local/bin: --build-context build=OUT takes the place of the stages that build it; tools/k8s/image.sh does that.
# Tags move. To build of images that do not: --build-arg NODE=docker.io/library/node@sha256:… and RUST the same, with the digests
# that `docker buildx imagetools inspect docker.io/library/node:22-alpine` prints. docs/KUBERNETES.md has more.
ARG BASE=scratch
ARG NODE=docker.io/library/node:22-alpine
ARG RUST=docker.io/library/rust:1.95-alpine

FROM ${NODE} AS page
WORKDIR /web
COPY web/ ./
RUN npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && npm run --silent build

# Alpine's Rust makes static programs: they run in any agent's image, whatever its C library.
FROM ${RUST} AS build
RUN apk add --no-cache ca-certificates gcc make musl-dev
WORKDIR /src
COPY . .
COPY --from=page /web/dist ./web/dist
RUN cargo build --profile dist --locked -p coop && \
    install -D target/dist/coop /usr/local/bin/coop

# Its users, certificates and variables stay its own.
FROM ${BASE} AS agent
COPY --from=build /usr/local/bin/coop /usr/local/bin/coop

FROM scratch AS coop
COPY --from=build /usr/local/bin/coop /usr/local/bin/coop
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY deploy/image/ /
ENV PATH=/usr/local/bin:/usr/bin:/bin
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/coop"]
