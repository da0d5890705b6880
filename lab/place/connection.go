package place

import "strings"

// Connection is how SSH places are reached, as flags of a command.
type Connection struct {
	SSH      string `name:"ssh" group:"Places" default:"ssh" placeholder:"COMMAND" help:"The ssh program with further arguments, separated by blanks; ${default}. Its configuration is yours: jump hosts and connection sharing too."`
	Sudo     Sudo   `group:"Places" enum:"no,yes,pass" default:"no" help:"How agents become root: ${enum}. With pass, the password is asked for, by the program in $$SUDO_ASKPASS if there is one. Measuring needs no root; changes and some of the profile do."`
	Programs string `group:"Places" type:"existingdir" placeholder:"DIR" help:"Directory with selvage-lab-linux-ARCH for machines of another architecture; where this program is by default."`
}

// Options are of sessions with agents of a version of this program.
func (c Connection) Options(version string, password func(prompt string) (string, error)) Options {
	return Options{Version: version, SSH: strings.Fields(c.SSH), Sudo: c.Sudo, Password: password, Programs: c.Programs}
}
