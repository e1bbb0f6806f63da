# The images of rest-lit: `server` (the default) and `runtime`.
#
#	make image, make runtime-image      with docker, podman or buildah
#	docker build .                      the server without make
#
# Both compile in a container, so the machine needs no compiler and the programs fit the base image.
# With the same base image, packages and commit, two builds have the same bytes.
ARG BASE=debian:12-slim

FROM ${BASE} AS build
WORKDIR /src
COPY packages.txt ./
COPY tests/tools/deps tests/tools/
RUN tests/tools/deps build && apt-get install -y --no-install-recommends ca-certificates
COPY . .
RUN make all && strip build/rest-lit && \
    ldd build/rest-lit | awk '$3 ~ "^/" { print "*" $3 }' | xargs dpkg -S | cut -d: -f1 | sort -u >build/packages

# One file: no shell, libc, user or certificate authorities.  It runs as root, because the volumes
# that it prepares may belong to root.
FROM scratch AS runtime
ARG VERSION
ARG REVISION
COPY --from=build /src/build/pai-runtime /pai-runtime
LABEL org.opencontainers.image.title="pai-runtime" \
      org.opencontainers.image.description="Prepares and runs the tasks of rest-lit's jobs" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT AND Apache-2.0 AND Zlib AND BSD-3-Clause"
# The pods' init containers use this default command.  `docker run IMAGE version` works as well.
ENTRYPOINT ["/pai-runtime"]
CMD ["init"]

# The base image with the shared libraries, and the certificate authorities of Debian for webhooks, as
# one file.  pai-runtime is for `--runtime=configmap`.
FROM ${BASE} AS server
ARG VERSION
ARG REVISION
RUN --mount=type=bind,from=build,source=/,target=/build \
    apt-get update && \
    DEBIAN_FRONTEND=noninteractive xargs -a /build/src/build/packages \
        apt-get install -y --no-install-recommends --no-upgrade && \
    mkdir -p /usr/share/doc/rest-lit && \
    /build/src/tests/tools/sbom image "${VERSION}" /build >/usr/share/doc/rest-lit/sbom.cdx.json && \
    rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/cache/ldconfig/* /var/cache/debconf/*-old \
        /var/lib/dpkg/*-old /var/log/* /tmp/*
COPY LICENSE docs/NOTICES.md /usr/share/doc/rest-lit/
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/build/pai-runtime /usr/lib/rest-lit/
COPY --from=build /src/build/rest-lit /usr/bin/
LABEL org.opencontainers.image.title="rest-lit" \
      org.opencontainers.image.description="Deep-learning jobs, as people write them, into Kubernetes" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.licenses="MIT AND Apache-2.0 AND Zlib AND BSD-3-Clause"
USER 65532:65532
ENTRYPOINT ["/usr/bin/rest-lit"]
