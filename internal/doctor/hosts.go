package doctor

import (
	"errors"
	"net/netip"
	"slices"
)

// HostFlags are the flags of an examination of other hosts, for any program that has the command. What they ask for is
// lab/preflight's.
type HostFlags struct {
	Hosts    []string     `group:"Other hosts" placeholder:"PLACE" help:"Examine these hosts instead, and what they differ by: ns:NAME, ssh:[USER@]HOST[:PORT] or pid:N."`
	Probe    []netip.Addr `group:"Other hosts" placeholder:"ADDR" help:"Addresses of the hosts to which path MTUs are probed; by default those in a subnet of two hosts, and remotes of their tunnels."`
	Port     int          `group:"Other hosts" default:"5300" placeholder:"PORT" help:"UDP port that answers the probes; ${default}."`
	Save     string       `group:"Other hosts" placeholder:"PROFILE" help:"Write what is known of the hosts to this file."`
	Verify   string       `group:"Other hosts" placeholder:"PROFILE" help:"Compare the hosts with what they were, and exit with 3 if they differ from that."`
	Script   string       `group:"Other hosts" placeholder:"DIR" help:"Write a shell script for each host with the changes that leave no choice, and the way back. It is not run."`
	SSH      string       `name:"ssh" group:"Other hosts" default:"ssh" placeholder:"COMMAND" help:"The ssh program with further arguments, separated by blanks; ${default}. Its configuration is yours: jump hosts and connection sharing too."`
	Sudo     string       `group:"Other hosts" enum:"no,yes,pass" default:"no" help:"How agents become root: ${enum}. With pass, the password is asked for, by the program in $$SUDO_ASKPASS if there is one. Without root, what root alone may read is not known."`
	Programs string       `group:"Other hosts" type:"existingdir" placeholder:"DIR" help:"Directory with selvage-lab-linux-ARCH for machines of another architecture; where this program is by default."`
}

// mostHosts is how many hosts are examined together.
const mostHosts = 16

// Check says what does not belong together.
func (f *HostFlags) Check() error {
	var errs []error
	if len(f.Hosts) == 0 {
		for flag, given := range map[string]bool{"probe": len(f.Probe) > 0, "save": f.Save != "", "verify": f.Verify != "", "script": f.Script != ""} {
			if given {
				errs = append(errs, errors.New("--"+flag+" is of --hosts: name them"))
			}
		}
		return errors.Join(errs...)
	}
	for i, host := range f.Hosts {
		if slices.Contains(f.Hosts[:i], host) {
			errs = append(errs, errors.New("--hosts: "+host+" is named twice"))
		}
	}
	if len(f.Hosts) > mostHosts {
		errs = append(errs, errors.New("--hosts: at most 16"))
	}
	if f.Port < 1 || f.Port > 65535 {
		errs = append(errs, errors.New("--port: not within 1 … 65535"))
	}
	return errors.Join(errs...)
}
