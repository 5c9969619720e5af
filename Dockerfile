# SPDX-License-Identifier: Apache-2.0
#
# The manager is compiled by make image and brings what it needs, certificate authorities included, so the base may be
# empty. Where images need one, distroless' static:nonroot is meant for programs like this.
ARG BASE=scratch
FROM ${BASE}
ARG TARGETOS=linux
ARG TARGETARCH=amd64
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Cluster API Provider Portal" \
      org.opencontainers.image.source="https://github.com/capportal/cluster-api-provider-portal" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY bin/image/licenses /licenses
COPY bin/image/manager-${TARGETOS}-${TARGETARCH} /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
