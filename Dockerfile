# The static command in an image with nothing else: no shell, no C library, no user but one.
#
#     docker build --build-arg VERSION=v1.2.0 -t onnxmem .
#     docker run --rm -v "$PWD:/work" -u "$(id -u)" onnxmem optimize model.onnx planned.onnx
FROM golang:1.26.8@sha256:3c3e25a4da13fd0478eed2df1eb35a0e667094a7124d3993a6a1d30f71c17e79 AS build
WORKDIR /source
COPY . .
ARG VERSION=dev
ENV CGO_ENABLED=0
RUN go build -tags nocuda -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$VERSION" -o /onnxmem ./cmd/onnxmem

FROM scratch
COPY --from=build /onnxmem /onnxmem
COPY LICENSE /LICENSE
WORKDIR /work
USER 65532:65532
ENTRYPOINT ["/onnxmem"]
