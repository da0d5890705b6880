package observe

import "github.com/selvage/selvage/internal/api"

// Log prints from which level on lines of subsystems are written.
func Log(w Writer, info api.LogInfo) error {
	return table(w, "SUBSYSTEM LEVEL CONFIGURED SUPPRESSED", info.Levels, func(l api.LogLevelInfo) []any {
		return []any{l.Subsystem, l.Level, l.Configured, l.Suppressed}
	})
}
