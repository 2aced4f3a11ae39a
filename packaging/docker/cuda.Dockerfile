# uvatrain, its Python module and PyTorch, for NVIDIA's GPUs. From the root of a checkout:
#
#   docker build -f packaging/docker/cuda.Dockerfile -t uvatrain:cuda .
#
# README.md in this folder describes how to run it, and the rights that a container needs.

ARG RUST_VERSION=1.95
ARG CUDA_IMAGE=nvidia/cuda:13.0.1-base-ubuntu24.04

# Builds with an older C library than that of the final image.
FROM rust:${RUST_VERSION}-slim-bookworm AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ python3 python3-pip python3-venv \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
# The wheel contains the program that is built first.
RUN scripts/setup/libtorch.sh \
 && cargo build --release --locked --package uvatrain \
 && UVATRAIN_WHEEL_PROGRAM=/src/target/release/uvatrain \
      python3 -m pip wheel --no-cache-dir --no-deps --wheel-dir /wheels ./crates/uva-py

# NVIDIA's smallest: PyTorch's wheels bring CUDA's libraries and NVRTC themselves.
FROM ${CUDA_IMAGE}
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libstdc++6 python3 python3-venv \
 && rm -rf /var/lib/apt/lists/* \
 && python3 -m venv /opt/venv
COPY --from=build /wheels /tmp/wheels
RUN /opt/venv/bin/pip install --no-cache-dir torch==2.11.0 torch-geometric==2.8.1 numpy==2.2.6 /tmp/wheels/uvatrain-*.whl \
 && rm -rf /tmp/wheels
# In the folder of the wheel's program, which searches there.
COPY --from=build /src/target/release/uvatrain-consumer /opt/venv/bin/
COPY LICENSE-MIT LICENSE-APACHE /usr/share/doc/uvatrain/
# libtorch and NVRTC are those of the environment. `compute` brings the control program of MPS.
ENV VIRTUAL_ENV=/opt/venv \
    PATH=/opt/venv/bin:${PATH} \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
# Ubuntu's image has a user with this number.
USER 1000
WORKDIR /data
ENTRYPOINT ["uvatrain"]
CMD ["doctor"]
