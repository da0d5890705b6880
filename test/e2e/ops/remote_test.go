package ops

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/certificates"
	"github.com/selvage/selvage/test/e2e/harness"
)

//	client ---- hosta ====== underlay ====== hostb ---- server
//
// What a user types at hostb to ask and change the edge of hosta, over TLS: docs/guide/remote.md.

// afar is the edge of hosta, which listens for who is at hostb.
type afar struct {
	*harness.TwoHosts
	t    *testing.T
	dir  string // of tokens and certificates
	base string // the text of its configuration, with listeners
}

const afarAddress = "https://192.0.2.1:9470"

func newAfar(t *testing.T) *afar {
	t.Helper()
	n := harness.NewTwoHosts(t, topo.TwoHostsOptions{})
	n.BuildRecorded(n.SelvageHalf(), n.SelvageHalf())
	n.StopCaptures()
	a := &afar{TwoHosts: n, t: t, dir: t.TempDir()}
	ca := a.authority("ca")
	ca.Client("deploy", "")
	certificates.New(t, a.dir, "other").Client("stranger", "")
	a.base = n.Config("hosta") + fmt.Sprintf(`  http:
    metrics: 192.0.2.1:9469
    api: {address: "192.0.2.1:9470", certificateFile: %[1]s/edge.pem, keyFile: %[1]s/edge.key, clientCAFile: %[1]s/ca.pem}
`, a.dir)
	return a
}

// authority has the edge be given a certificate by another authority.
func (a *afar) authority(name string) *certificates.Authority {
	a.t.Helper()
	ca := certificates.New(a.t, a.dir, name)
	ca.Server("edge", time.Now().Add(30*24*time.Hour), net.IPv4(192, 0, 2, 1))
	return ca
}

// own gives the edge's own file another text, and returns its path.
func (a *afar) own(text string) string {
	a.t.Helper()
	path := a.Edges["hosta"].Config
	a.Must(os.WriteFile(path, []byte(text), 0o600))
	return path
}

// as is a command at hostb by who has those flags, whose files are in the directory of certificates.
func (a *afar) as(flags string, command ...string) *topo.Command {
	return a.inDir("exec " + harness.Program + " " + strings.Join(command, " ") + " --address " + afarAddress + " " + flags)
}

func (a *afar) inDir(line string) *topo.Command {
	return a.B.Command(a.Ctx, "sh", "-c", "cd "+a.dir+" && "+line)
}

const deployer = "--ca ca.pem --cert deploy.pem --key deploy.key"

// runs is a command that prints all the words.
func (a *afar) runs(flags string, command []string, words ...string) {
	a.t.Helper()
	a.Once(strings.Join(command, " ")+" with "+flags, func() error {
		out, err := a.as(flags, command...).Output()
		return missing(string(out), err, words)
	})
}

// fails is a command that ends with a status other than 0, and says all the words.
func (a *afar) fails(flags string, command []string, words ...string) {
	a.t.Helper()
	a.Once(strings.Join(command, " ")+" is refused with "+flags, func() error {
		out, err := a.as(flags, command...).Output()
		if err == nil {
			return fmt.Errorf("it is not: %s", out)
		}
		return missing(err.Error(), nil, words)
	})
}

func TestRemote(t *testing.T) {
	t.Parallel()
	a := newAfar(t)
	status, apply := []string{"status"}, []string{"apply", a.own(a.base)}
	a.fails(deployer, status, "nothing listens there: see spec.http.api of the edge")
	a.Once("the edge listens", func() error {
		_, err := says(a.TwoHosts, "apply", apply[1])
		return err
	})
	name := a.Edges["hosta"].Name
	a.runs(deployer, status, name, "OK")
	a.runs(deployer, []string{"ports"}, "access")
	a.Once("metrics are in the clear", func() error {
		out, err := a.inDir("curl -sS http://192.0.2.1:9469/metrics").Output()
		return missing(string(out), err, []string{`selvage_http_listener_up{listener="api"} 1`})
	})
	a.fails("--ca ca.pem", status, "it requires a client certificate: give --cert and --key")
	a.fails("--ca ca.pem --cert stranger.pem --key stranger.key", status, "tls:")
	a.fails(strings.Replace(deployer, "ca.pem", "other.pem", 1), status, "certificate signed by unknown authority")

	more := strings.Replace(a.base, "  segments:\n", "  segments:\n    - {name: red, vni: 4242}\n", 1)
	a.runs(deployer, []string{"apply", a.own(more)}, "is in force", "+ spec.segments[red]")
	a.runs(deployer, []string{"history"}, "deploy at 192.0.2.2")
	a.topOf()
	a.rotates()
}

// topOf: top asks from afar, and so do the commands that its keys start.
func (a *afar) topOf() {
	a.t.Helper()
	a.Fact("top shows the edge, and m its packets", func() error {
		keys := "sleep 1; printf m; sleep 1; printf '\\003'; sleep .3; printf '\\n'; sleep .3; printf q"
		out, err := a.inDir(topCommand(keys, "--address "+afarAddress+" "+deployer)).Output()
		return onScreen(out, err, "PORT", "access", "$ selvage monitor --address "+afarAddress+" "+deployer+" --port access", "Enter goes back")
	})
}

// rotates: the certificate is another authority's from a moment on, and who followed goes on.
func (a *afar) rotates() {
	a.t.Helper()
	follow := a.as(deployer, "events", "--follow", "-o", "json")
	out, in := io.Pipe()
	follow.Stdout = in
	a.Must(follow.Start())
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	go func() {
		<-follow.Done()
		in.Close()
	}()
	a.t.Cleanup(follow.Kill)
	sees := func(word string) {
		a.t.Helper()
		a.Once("who follows sees "+word, func() error {
			late := time.After(5 * time.Second)
			for {
				select {
				case line, ok := <-lines:
					if !ok {
						return errors.New("the stream ended")
					}
					if strings.Contains(line, word) {
						return nil
					}
				case <-late:
					return errors.New("it does not")
				}
			}
		})
	}
	sees("config-applied")
	a.authority("next")
	a.Once("the edge reads the certificate again", func() error {
		_, err := a.A.Output(a.Ctx, harness.Program, "reload", a.Edges["hosta"].Name)
		return err
	})
	a.fails(deployer, []string{"status"}, "certificate signed by unknown authority")
	a.runs(strings.Replace(deployer, "ca.pem", "next.pem", 1), []string{"log", "level", "bgp=debug"})
	sees("log-level")
}
