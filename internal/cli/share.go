package cli

import (
	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/internal/config"
	"github.com/selvage/selvage/internal/manual"
	"github.com/selvage/selvage/internal/share"
)

// aboutProgram is what selvage(1) says besides its commands.
var aboutProgram = manual.Program{
	Parts: []manual.Part{
		{
			Title: "Exit status",
			Terms: []manual.Term{
				{Word: "0", What: "Success."},
				{Word: "1", What: "Failure: no edge runs, the socket may not be opened, the edge does not answer, or the operation failed. Of status also a broken edge, of prove also a remote that does not pass."},
				{Word: "2", What: "Wrong usage, a wrong configuration file, or a question that the edge refuses."},
			},
			Text: []string{"Answers go to standard output, everything else to standard error, one line for each problem."},
		},
		{
			Title: "Files",
			Terms: []manual.Term{
				{Word: "/etc/selvage/NAME.yaml", What: "Configuration of the edge NAME, see selvage.yaml(5)."},
				{Word: "/run/selvage/NAME.sock", What: "Socket on which the edge NAME answers."},
				{Word: "/var/lib/selvage", What: "The revisions of each edge's configuration, and whether it drains."},
				{Word: "/sys/fs/bpf/selvage", What: "The pinned data paths. They forward while no edge runs; selvage remove removes one."},
			},
		},
	},
	SeeAlso: []string{"selvage.yaml(5)", "selvage-lab(1)", "bpf(2)", "ip(8)", "systemctl(1)"},
}

// aboutFile is what selvage.yaml(5) says besides the fields.
var aboutFile = manual.File{
	Name:  "selvage.yaml",
	Brief: "configuration of an overlay network edge",
	Parts: []manual.Part{
		{
			Title: "Synopsis",
			Text:  []string{"/etc/selvage/NAME.yaml"},
		},
		{
			Title: "Description",
			Text: []string{
				"A file describes one edge, in YAML or JSON. selvage check FILE finds what is wrong with it, with line and column, and changes nothing. selvage edge runs it, and selvage apply has a running edge take it.",
				"selvage schema prints the JSON Schema of the file, from which this page is made. Editors complete and check by it.",
				"Examples are in /usr/share/doc/selvage/examples.",
			},
		},
	},
	SeeAlso: []string{"selvage(1)", "selvage-check(1)", "selvage-apply(1)", "selvage-edge(1)"},
}

// writeShared writes below dir what packages install below /usr/share.
func writeShared(dir string, model *kong.Application) error {
	schema, err := config.Schema()
	if err != nil {
		return err
	}
	edition := share.Edition()
	file, err := manual.FilePage(schema, aboutFile, edition)
	if err != nil {
		return err
	}
	return share.Write(dir, model, append(manual.Pages(model, aboutProgram, edition), file))
}
