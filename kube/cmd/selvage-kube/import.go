package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/kube/internal/commandline"
	"github.com/selvage/selvage/kube/internal/importing"
	"github.com/selvage/selvage/kube/internal/importing/source"
)

// unsaid is what objects of other projects do not say.
type unsaid struct {
	UplinkInterface []string `sep:"none" placeholder:"IF[@GATEWAY]" help:"Interface by which packets leave the nodes of a gateway, or of all."`
	VLAN            []string `name:"vlan" sep:"none" placeholder:"N[@GATEWAY]" help:"VLAN of that interface."`
	NextHop         []string `sep:"none" placeholder:"ADDR[@GATEWAY]" help:"Router behind that interface; several when repeated."`
	Nodes           []string `sep:"none" placeholder:"SELECTOR[@GATEWAY]" help:"Label selector of the nodes of a gateway."`
	Address         []string `sep:"none" placeholder:"ADDR[@GATEWAY]" help:"Address, range or network that a gateway has; several when repeated. Without a gateway: of those whose objects name none."`
	Except          []string `placeholder:"NETWORK" help:"Networks to which no pod leaves by a gateway."`
	WhenNoGateway   string   `enum:"Drop,Node" default:"Drop" help:"What becomes of packets while no node of a gateway serves: ${enum}. By Node they leave by the node of the pod."`
}

func (u *unsaid) options() importing.Options {
	return importing.Options{
		Interfaces: settings(u.UplinkInterface), VLANs: settings(u.VLAN), NextHops: settings(u.NextHop),
		Nodes: settings(u.Nodes), Addresses: settings(u.Address),
		Except: u.Except, WhenNoGateway: v1alpha1.NoGateway(u.WhenNoGateway),
	}
}

type importCmd struct {
	File []string `short:"f" sep:"none" placeholder:"FILE" help:"Read manifests of this file, of all below this directory, or of standard input (-). When left out, the cluster is asked."`
	commandline.Cluster

	unsaid

	Output       string `short:"o" placeholder:"FILE" help:"Write the objects there; to standard output when left out."`
	Report       string `placeholder:"FILE" help:"Write there what is not carried over, and why; to standard error when left out."`
	ReportFormat string `enum:"text,json" default:"text" help:"Write that as text or JSON: ${enum}."`
}

// Help says what kong's flags do not.
func (*importCmd) Help() string {
	return "Reads EgressGateway, EgressPolicy and EgressClusterPolicy of EgressGateway (spidernet), and CiliumEgressGatewayPolicy of Cilium. " +
		"Changes nothing in the cluster. A flag with @GATEWAY is for that gateway alone, and goes before what objects say."
}

// Run writes objects, and says what they lack.
func (c *importCmd) Run(ctx context.Context, s *commandline.Streams) error {
	objects, err := c.read(ctx, s)
	if err != nil {
		return err
	}
	result, err := importing.Convert(objects, c.options())
	var needed importing.Needed
	if err != nil && !errors.As(err, &needed) {
		return commandline.UsageError{Err: err}
	}
	if len(result.Read) == 0 {
		return commandline.UsageError{Err: errors.New("there is no egress object of a kind that is read; see selvage-kube import --help")}
	}
	if err := c.report(s, result); err != nil {
		return err
	}
	if len(needed) > 0 {
		return commandline.UsageError{Err: lacking(needed)}
	}
	out, err := result.YAML()
	if err != nil {
		return err
	}
	if c.Output != "" {
		return os.WriteFile(c.Output, out, 0o644) //nolint:gosec // manifests are no secret
	}
	_, err = s.Out.Write(out)
	return err
}

func (c *importCmd) read(ctx context.Context, s *commandline.Streams) ([]importing.Object, error) {
	if len(c.File) > 0 {
		if c.Kubeconfig != "" || c.Context != "" {
			return nil, commandline.UsageError{Err: errors.New("--kubeconfig and --context are for a cluster, and --file is without one")}
		}
		objects, err := source.Files(c.File, s.In)
		if err != nil {
			return nil, commandline.UsageError{Err: err}
		}
		return objects, nil
	}
	config, _, err := c.Config()
	if err != nil {
		return nil, err
	}
	return source.Cluster(ctx, config)
}

// settings takes the names of gateways off flags.
func settings(flags []string) (all []importing.Setting) {
	for _, f := range flags {
		value, gateway := f, ""
		if at := strings.LastIndex(f, "@"); at >= 0 {
			value, gateway = f[:at], f[at+1:]
		}
		all = append(all, importing.Setting{Gateway: gateway, Value: value})
	}
	return all
}

// lacking says which flags are needed.
func lacking(needed importing.Needed) error {
	flag := map[string]string{"Interfaces": "--uplink-interface IF", "NextHops": "--next-hop ADDR", "Nodes": "--nodes SELECTOR", "Addresses": "--address ADDR"}
	errs := []error{errors.New("nothing is written: gateways need what objects do not say (a flag without @GATEWAY is for all)")}
	for _, n := range needed {
		errs = append(errs, fmt.Errorf("  %s@%s: %s", flag[n.Option], n.Gateway, n.Why))
	}
	return errors.Join(errs...)
}

// report writes what is not carried over.
func (c *importCmd) report(s *commandline.Streams, r importing.Result) error {
	var b bytes.Buffer
	if c.ReportFormat == "json" {
		notes := r.Notes
		if notes == nil {
			notes = []importing.Note{}
		}
		out, err := json.MarshalIndent(map[string]any{
			"read": r.Read, "ignored": r.Ignored, "notes": notes,
			"written": map[string]int{"EgressGateway": len(r.Gateways), "EgressPolicy": len(r.Policies), "ClusterEgressPolicy": len(r.ClusterPolicies)},
		}, "", "  ")
		if err != nil {
			return err
		}
		b.Write(append(out, '\n'))
	} else {
		for _, n := range r.Notes {
			fmt.Fprintln(&b, n)
		}
		for _, kind := range slices.Sorted(maps.Keys(r.Ignored)) {
			fmt.Fprintf(&b, "%s: not about egress, %d of them\n", kind, r.Ignored[kind])
		}
	}
	if c.Report != "" {
		return os.WriteFile(c.Report, b.Bytes(), 0o644) //nolint:gosec // as the manifests
	}
	_, err := s.Err.Write(b.Bytes())
	return err
}
