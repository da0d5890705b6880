package doctor

import (
	"github.com/selvage/selvage/internal/cilium"
	"github.com/selvage/selvage/internal/host"
)

// machineSources are the sources of this machine.
type machineSources struct {
	Sources
	survey *host.Survey
	tools  *adapters
}

// open opens what Read needs of this machine.
func open(runtimeDir string) (*machineSources, error) {
	survey, err := host.OpenSurvey()
	if err != nil {
		return nil, err
	}
	tools, err := openAdapters()
	if err != nil {
		survey.Close()
		return nil, err
	}
	return &machineSources{
		Sources: Sources{
			Sys: "/sys", Proc: "/proc", Etc: "/etc",
			Network: survey, Adapters: tools, Vswitch: newVsctl(), Edges: sockets{runtimeDir}, Cilium: cilium.Socket,
		},
		survey: survey, tools: tools,
	}, nil
}

func (s *machineSources) close() {
	s.tools.close()
	s.survey.Close()
}
