package preflight

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/doctor"
	"github.com/selvage/selvage/internal/doctor/compare"
	"github.com/selvage/selvage/internal/doctor/facts"
	"github.com/selvage/selvage/internal/doctor/fix"
)

// write writes the files that the flags ask for.
func (r *Report) write(f doctor.HostFlags) error {
	if f.Save != "" {
		p := facts.Profile{Schema: facts.Schema, Taken: r.Taken, Hosts: r.facts()}
		if err := p.WriteFile(f.Save); err != nil {
			return err
		}
	}
	if f.Script == "" {
		return nil
	}
	if err := os.MkdirAll(f.Script, 0o755); err != nil {
		return fmt.Errorf("scripts: %w", err)
	}
	names := map[string]bool{}
	for i := range r.Hosts {
		name := fileName(r.Hosts[i].Place)
		if names[name] {
			name = fmt.Sprintf("%s-%d", name, i+1)
		}
		names[name] = true
		file := filepath.Join(f.Script, name+".sh")
		if err := os.WriteFile(file, []byte(r.script(&r.Hosts[i]).String()), 0o644); err != nil {
			return fmt.Errorf("script of %s: %w", r.Hosts[i].Place, err)
		}
	}
	return nil
}

// fileName is a place as a name of a file: "ssh_a".
func fileName(place string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
			return r
		}
		return '_'
	}, place)
}

// script has what leaves no choice: fixes of faults and warnings of the host, of differences, and of drift.
func (r *Report) script(h *Host) fix.Script {
	s := fix.Script{Place: h.Place, Host: h.Facts.Name, Taken: r.Taken.Format(time.RFC3339), Carriers: h.Carriers}
	for _, f := range h.Report.Findings {
		addTo(&s, f)
	}
	for _, all := range []compare.Result{r.Between, r.Drift[h.Place]} {
		for _, f := range all.Findings {
			if f.At == h.Place && len(f.Fixes) > 0 {
				s.Fixes = append(s.Fixes, f.Fixes...)
			} else if f.At == h.Place {
				addTo(&s, f.Finding)
			}
		}
	}
	return s
}

// addTo adds what a finding proposes: notes, and what is no plain setting, are for the reader.
func addTo(s *fix.Script, f doctor.Finding) {
	if len(f.Fixes) > 0 && f.Severity != doctor.Note {
		s.Fixes = append(s.Fixes, f.Fixes...)
		return
	}
	for _, command := range f.Change {
		s.ByHand = append(s.ByHand, f.Title()+": "+command)
	}
	for _, command := range f.Or {
		s.ByHand = append(s.ByHand, f.Title()+", or: "+command)
	}
}
