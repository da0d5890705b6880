package limit

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package limit -output-stem limit limit bpf/limit.bpf.c -- -O2 -fno-strict-aliasing -g -mcpu=v3 -Wall -Wextra -Werror -I../../bpf -I../../bpf/include
