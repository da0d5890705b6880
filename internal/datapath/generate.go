package datapath

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package datapath -type reason -type slow -type event -type end -type end_kind -type end_flags -type segment_flags -type encapsulation -type outer_flags -type route_kind -type flow_flags -type stage -type action -type end_counters -type counter -type router_flags -type egress_flags -type point -type evpn_flags -type host_origin -type decision -output-stem edge edge ../../bpf/edge.bpf.c -- -O2 -fno-strict-aliasing -g -mcpu=v3 -Wall -Wextra -Werror -I../../bpf -I../../bpf/include

// The transit programs share the maps and types of the edge's.
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package datapath -output-stem transit transit ../../bpf/transit.bpf.c -- -O2 -fno-strict-aliasing -g -mcpu=v3 -Wall -Wextra -Werror -I../../bpf -I../../bpf/include
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package datapath -output-stem refused refused ../../bpf/maint/devmap_drops.bpf.c -- -O2 -fno-strict-aliasing -g -mcpu=v3 -Wall -Wextra -Werror -I../../bpf -I../../bpf/include

// The sweep over the firewall's connections, upon the edge's maps.
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package datapath -type census -type conn_bits -type conn_state -type log_line -type arrival -type direction -type verdict -output-stem sweep sweep ../../bpf/maint/conntrack_gc.bpf.c -- -O2 -fno-strict-aliasing -g -mcpu=v3 -Wall -Wextra -Werror -I../../bpf -I../../bpf/include
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package datapath -type session -output-stem judge judge ../../bpf/maint/classify_test.bpf.c -- -O2 -fno-strict-aliasing -g -mcpu=v3 -Wall -Wextra -Werror -I../../bpf -I../../bpf/include

// The sweep over the bindings of NAT, upon the edge's maps.
//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -go-package datapath -type binding_news -type binding_flags -type binding_event -type nat_census -output-stem natsweep natsweep ../../bpf/maint/nat_gc.bpf.c -- -O2 -fno-strict-aliasing -g -mcpu=v3 -Wall -Wextra -Werror -I../../bpf -I../../bpf/include
