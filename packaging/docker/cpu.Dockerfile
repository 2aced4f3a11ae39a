# uvatrain on the CPU. From the root of a checkout:
#
#   docker build -f packaging/docker/cpu.Dockerfile -t uvatrain .
#   docker build -f packaging/docker/cpu.Dockerfile -t uvatrain:tools --target tools .
#
# The second image lacks the built-in models and libtorch.
#
# README.md in this folder describes how to run it.

ARG RUST_VERSION=1.95
ARG DEBIAN=bookworm

FROM rust:${RUST_VERSION}-slim-${DEBIAN} AS compiler
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ python3 python3-pip python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .

# Without libtorch: datasets, plans, parts, hop sets, and batches for a program of your own.
FROM compiler AS build-tools
RUN LIBTORCH=/nonexistent cargo build --release --locked --package uvatrain --bin uvatrain \
      --no-default-features --features request-model,parquet

FROM compiler AS build-train
ENV UVATRAIN_CACHE=/cache
# Keeps the files of libtorch that a CPU loads; those for CUDA are loaded for a GPU only.
RUN scripts/setup/libtorch.sh \
 && cargo build --release --locked --package uvatrain \
 && mv /cache/libtorch-* /libtorch \
 && rm -rf /libtorch/torch/include /libtorch/torch/lib/libtorch_cuda* /libtorch/torch/lib/libtorch_python* \
      /libtorch/torch/lib/libc10_cuda* /libtorch/torch/lib/libtorch_nvshmem* /libtorch/torch/lib/libcaffe2_nvrtc* \
      /libtorch/torch/lib/libtorch.so

FROM debian:${DEBIAN}-slim AS base
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libstdc++6 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 1000 uvatrain
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/uvatrain/
USER 1000
WORKDIR /data
ENTRYPOINT ["uvatrain"]
CMD ["--help"]

FROM base AS tools
COPY --from=build-tools /src/target/release/uvatrain /usr/local/bin/

FROM base AS train
COPY --from=build-train /libtorch /opt/libtorch
COPY --from=build-train /src/target/release/uvatrain /src/target/release/uvatrain-consumer /usr/local/bin/
ENV UVATRAIN_LIBTORCH=/opt/libtorch/torch
