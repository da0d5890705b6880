package losses

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package losses -type cause -type loss -type follow -output-stem losses losses bpf/losses.bpf.c -- -O2 -fno-strict-aliasing -g -mcpu=v3 -Wall -Wextra -Werror -I../../bpf/include
