package monitoring

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/selvage/selvage/deploy/grafana"
	"github.com/selvage/selvage/internal/await"
)

// panels is what a dashboard's file has that this is about.
type panels struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Query, Regex string }
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

func dashboards(s *server) map[string]panels {
	s.T.Helper()
	files, err := grafana.Files()
	s.Must(err)
	all := map[string]panels{}
	for name, text := range files {
		var d panels
		s.Must(json.Unmarshal(text, &d))
		all[name] = d
	}
	if len(all) < 5 {
		s.Fail("there are dashboards", fmt.Errorf("%d files", len(all)))
	}
	return all
}

// variables are what Grafana puts in the places of its variables, when the reader has chosen all.
var variables = strings.NewReplacer("$job", "selvage", "$edge", ".+", "$__rate_interval", "3s")

// everyPanelHasData is a fact: each query of each panel, and each annotation, returns numbers.
func (s *server) everyPanelHasData() {
	s.T.Helper()
	queries := map[string]string{} // by where they are
	for file, d := range dashboards(s) {
		for _, p := range d.Panels {
			for i, target := range p.Targets {
				queries[fmt.Sprintf("%s: %s: query %d", file, p.Title, i+1)] = target.Expr
			}
		}
		for _, a := range d.Annotations.List {
			queries[file+": annotation "+a.Name] = a.Expr
		}
	}
	err := await.Within(s.Ctx, 20*time.Second, "data of all panels", func() error {
		var empty []error
		for at, query := range queries {
			err := s.returnsNumbers(query)
			if err == nil {
				delete(queries, at) // once is enough: some are about moments
				continue
			}
			empty = append(empty, fmt.Errorf("%s: %s: %w", at, query, err))
		}
		return errors.Join(empty...)
	})
	if err != nil {
		s.Fail("no panel is empty", err)
	}
}

func (s *server) returnsNumbers(query string) error {
	samples, err := s.ask(variables.Replace(query))
	if err != nil {
		return err
	}
	for _, sample := range samples {
		if !math.IsNaN(sample.value) && !math.IsInf(sample.value, 0) {
			return nil
		}
	}
	return fmt.Errorf("%d samples, none a number", len(samples))
}

// edgesCanBeChosen is a fact: the variables of a dashboard offer the job, and edges by their names.
func (s *server) edgesCanBeChosen(names map[string]string) {
	s.T.Helper()
	for file, d := range dashboards(s) {
		for _, v := range d.Templating.List {
			if v.Name != "edge" {
				continue
			}
			query := strings.TrimSuffix(strings.TrimPrefix(v.Query, "query_result("), ")")
			choice := regexp.MustCompile(strings.ReplaceAll(strings.Trim(v.Regex, "/"), "(?<", "(?P<"))
			s.Fact(file+": edges can be chosen", func() error {
				samples, err := s.ask(variables.Replace(query))
				for _, sample := range samples {
					found := choice.FindStringSubmatch(asGrafanaShows(sample))
					if found == nil || names[found[choice.SubexpIndex("value")]] != found[choice.SubexpIndex("text")] {
						err = errors.Join(err, fmt.Errorf("%q becomes %q", asGrafanaShows(sample), found))
					}
				}
				if len(samples) != len(names) {
					err = errors.Join(err, fmt.Errorf("%d edges, want %d", len(samples), len(names)))
				}
				return err
			})
		}
	}
}

// asGrafanaShows is how query_result() writes a sample; the labels are in the order of their names.
func asGrafanaShows(s sample) string {
	text, err := json.Marshal(s.labels) // sorted
	if err != nil {
		return err.Error()
	}
	labels := regexp.MustCompile(`"([^"]+)":("[^"]*")`).ReplaceAllString(strings.Trim(string(text), "{}"), "$1=$2")
	return fmt.Sprintf("selvage_edge_info{%s} %g 0", strings.TrimPrefix(labels, `__name__="selvage_edge_info",`), s.value)
}
