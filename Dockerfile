# SPDX-License-Identifier: Apache-2.0
#
# The manager is compiled by make image and brings what it needs, certificate authorities included, so the base may be
# empty. Where images need one, distroless' static:nonroot is meant for programs like this.
ARG BASE=scratch
FROM ${BASE}
ARG TARGETOS=linux
ARG TARGETARCH=amd64
COPY bin/image/manager-${TARGETOS}-${TARGETARCH} /manager
USER 65532:65532
ENTRYPOINT ["/manager"]
