package cli

import (
	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/internal/manual"
	"github.com/selvage/selvage/internal/share"
)

// aboutProgram is what selvage-lab(1) says besides its commands.
var aboutProgram = manual.Program{
	Parts: []manual.Part{
		{
			Title: "Notes",
			Text:  []string{"selvage lab COMMAND is the same as selvage-lab COMMAND. Both programs have to be of one build."},
		},
		{
			Title: "Exit status",
			Terms: []manual.Term{
				{Word: "0", What: "Success."},
				{Word: "1", What: "Failure."},
				{Word: "2", What: "Wrong usage."},
				{Word: "3", What: "A condition of --fail-if or of selvage-lab check is met."},
			},
			Text: []string{"selvage-lab shell ends with the status of the command that it ran."},
		},
	},
	SeeAlso: []string{"selvage(1)", "iperf3(1)", "ethtool(8)", "ip-netns(8)"},
}

// writeShared writes below dir what packages install below /usr/share.
func writeShared(dir string, model *kong.Application) error {
	return share.Write(dir, model, manual.Pages(model, aboutProgram, share.Edition()))
}
