package result

// Names of metrics and series that more read than an instrument and its experiment.
const (
	TCPThroughput = "tcp_throughput" // Gbit/s of payload received
	TCPSeries     = "tcp_gbps"       // the same, one value an interval
	CPUSteal      = "cpu_steal"      // share of all cores' time that the hypervisor took, 0 … 1
	IdleBusy      = "idle_busy"      // share of all cores' time that was busy just before the sample, 0 … 1
)
