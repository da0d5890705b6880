package api

// Whether an edge is healthy.
const (
	HealthOK     = "ok"
	HealthFailed = "failed"
)

// ArgVerbose asks /healthz and /readyz for a HealthInfo.
const ArgVerbose = "verbose"

// HealthInfo is whether an edge works (/healthz), or does all that it is to do (/readyz).
type HealthInfo struct {
	Status string        `json:"status"` // HealthOK or HealthFailed
	Checks []HealthCheck `json:"checks"`
}

// HealthCheck is one thing that it takes.
type HealthCheck struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Message string `json:"message"` // as it is, and what to do where it is not well
}
