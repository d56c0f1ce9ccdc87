# The hub's image: one binary on a base without shell, as a user without rights.
#   docker build -t REGISTRY/vidra-hub:0.1.0 .
FROM rust:1.89-bookworm AS build
WORKDIR /src
COPY . .
# Without the demo. --locked: what Cargo.lock says.
RUN cargo build --profile dist --locked --no-default-features --package vidra-hub --bin vidra-hub

# glibc and libgcc, which the binary links, and nothing else.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/dist/vidra-hub /usr/local/bin/vidra-hub
USER 65532:65532
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/vidra-hub"]
