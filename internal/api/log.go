package api

import (
	"context"
	"net/url"
)

// LogInfo is how an edge logs.
type LogInfo struct {
	Format string         `json:"format"`
	Levels []LogLevelInfo `json:"levels"`
	Lost   uint64         `json:"lost"` // lines that nobody took
}

// LogLevelInfo is from which level on lines of a subsystem are written.
type LogLevelInfo struct {
	Subsystem  string `json:"subsystem"`
	Level      string `json:"level"`
	Configured string `json:"configured"` // after a restart
	Suppressed uint64 `json:"suppressed"` // lines over its rate
}

// LogClient asks what happened to an edge, and how it logs.
type LogClient struct{ c *Client }

// Log asks about events and the log.
func (c *Client) Log() LogClient { return LogClient{c} }

// Info fetches how the edge logs.
func (c LogClient) Info(ctx context.Context) (LogInfo, error) {
	return Fetch[LogInfo](ctx, c.c, "log")
}

// SetLevel sets the level of a subsystem, or of all for "", until the edge restarts.
func (c LogClient) SetLevel(ctx context.Context, subsystem, level string) (LogInfo, error) {
	return post[LogInfo](ctx, c.c, "log/level?"+url.Values{ArgSubsystem: {subsystem}, ArgLevel: {level}}.Encode(), nil)
}
