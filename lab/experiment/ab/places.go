package ab

import (
	"errors"
	"fmt"

	"github.com/alecthomas/kong"

	"github.com/selvage/selvage/lab/experiment/ab/paths"
)

// atPlaces is the run on a network that exists.
func atPlaces(c *Command) *paths.Command {
	return &paths.Command{
		Flags: c.Places, Cases: c.Cases, Rounds: c.Rounds, Slice: c.Slice, Streams: c.Streams, Destination: c.Destination,
	}
}

// AfterApply refuses flags of networks that are built where one exists, and the other way round: they
// would do nothing.
func (c *Command) AfterApply(line *kong.Context) error {
	for _, given := range line.Path {
		switch group := groupOf(given.Flag); {
		case group == "Network" && (c.Places.Asked() || c.Gateway != ""):
			return fmt.Errorf("--%s is of networks with several targets that the lab builds, not of one that exists or of --gateway", given.Flag.Name)
		case group == "Places" && !c.Places.Asked():
			return fmt.Errorf("--%s is of networks that exist: name one with --client, --server and --path", given.Flag.Name)
		case given.Flag != nil && given.Flag.Name == "gateway" && c.Places.Asked():
			return errors.New("--gateway builds a network, and --client, --server and --path are of one that exists")
		}
	}
	return nil
}

func groupOf(flag *kong.Flag) string {
	if flag == nil || flag.Group == nil {
		return ""
	}
	return flag.Group.Key
}
