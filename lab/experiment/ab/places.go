package ab

import (
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/lab/experiment/ab/paths"
)

// atPlaces is the run on a network that exists.
func (c *Command) atPlaces() *paths.Command {
	return &paths.Command{
		Flags: c.Places, Cases: c.Cases, Rounds: c.Rounds, Slice: c.Slice, Streams: c.Streams, Output: c.Output, Results: c.Results,
	}
}

// AfterApply refuses flags of networks that are built where one exists, and the other way round: they
// would do nothing.
func (c *Command) AfterApply(line *kong.Context) error {
	other, why := "Places", "is of networks that exist: name those with --client, --server and --path"
	if c.Places.Asked() {
		other, why = "Network", "is of networks that the lab builds, and --client, --server and --path are of one that exists"
	}
	for _, flag := range line.Flags() {
		if flag.Set && flag.Group != nil && flag.Group.Key == other {
			return fmt.Errorf("--%s %s", flag.Name, why)
		}
	}
	return nil
}
