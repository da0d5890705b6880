package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/selvage/selvage/internal/await"
	"github.com/selvage/selvage/lab/topo"
	"github.com/selvage/selvage/test/e2e/harness"
)

// The rules of deploy/prometheus are what an operator loads; here time runs 60 times faster: a
// minute of a range is a second, and an alert fires when it was true for a second.
const (
	minute         = time.Second
	scrapeInterval = 300 * time.Millisecond
)

// faster are the rules with other times.
func faster(rules string) string {
	rules = regexp.MustCompile(`(?m)^(\s+for: )\S+$`).ReplaceAllString(rules, "${1}1s")
	return regexp.MustCompile(`\[(\d+)m\]`).ReplaceAllStringFunc(rules, func(s string) string {
		minutes, _ := strconv.Atoi(s[1 : len(s)-2])
		return fmt.Sprintf("[%dms]", (time.Duration(minutes) * minute).Milliseconds())
	})
}

// target is what is scraped, how it is reached, and in lines of a scrape what else Prometheus has to know.
type target struct {
	instance string
	dial     func() (net.Conn, error)
	more     string
}

// server is a Prometheus of Debian's in a host of its own, which reaches edges by relays alone.
type server struct {
	*harness.Network
	host    *topo.Host
	address string // in the host
	client  http.Client
}

// startPrometheus runs it until the test ends.
func startPrometheus(n *harness.Network, targets ...target) *server {
	n.T.Helper()
	dir := n.T.TempDir()
	host, err := n.Topo.Host("prometheus")
	n.Must(err)
	s := &server{Network: n, host: host, address: "127.0.0.1:9090"}
	s.client.Transport = &http.Transport{DialContext: func(context.Context, string, string) (conn net.Conn, err error) {
		err = host.Do(func() error {
			conn, err = net.Dial("tcp", s.address)
			return err
		})
		return conn, err
	}}
	rules, err := os.ReadFile("../../../deploy/prometheus/alerts.yaml")
	n.Must(err)
	n.Must(os.WriteFile(filepath.Join(dir, "alerts.yaml"), []byte(faster(string(rules))), 0o600))
	var config strings.Builder
	fmt.Fprintf(&config, "global: {scrape_interval: %s, scrape_timeout: %s, evaluation_interval: %s}\nrule_files: [alerts.yaml]\n", scrapeInterval, scrapeInterval, scrapeInterval)
	config.WriteString("scrape_configs:\n")
	for _, t := range targets {
		fmt.Fprintf(&config, "- job_name: selvage-%s\n%s  static_configs: [{targets: [%q], labels: {instance: %q, job: selvage}}]\n", t.instance, t.more, s.relay(t.dial), t.instance)
	}
	n.Must(os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config.String()), 0o600))

	run := s.host.Command(context.WithoutCancel(n.Ctx), "prometheus", "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+s.address, "--log.level=warn")
	run.Log = filepath.Join(dir, "log")
	n.Must(run.Start())
	n.T.Cleanup(func() {
		run.Kill()
		if log, err := os.ReadFile(run.Log); n.T.Failed() {
			n.T.Logf("Prometheus: %v\n%s", err, harness.Tail(string(log), 20))
		}
	})
	return s
}

// relay is an address at which a target answers.
func (s *server) relay(dial func() (net.Conn, error)) string {
	s.T.Helper()
	var listener net.Listener
	s.Must(s.host.Do(func() (err error) {
		listener, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	}))
	s.T.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer client.Close()
				edge, err := dial()
				if err != nil {
					return // the client sees the end
				}
				defer edge.Close()
				go func() { _, _ = io.Copy(edge, client); edge.Close() }()
				_, _ = io.Copy(client, edge)
			}()
		}
	}()
	return listener.Addr().String()
}

// sample is one that a query returned.
type sample struct {
	labels map[string]string
	value  float64
}

// ask puts a question in PromQL.
func (s *server) ask(query string) ([]sample, error) {
	var answer struct {
		Error string
		Data  struct {
			Result []struct {
				Metric map[string]string
				Value  [2]any
			}
		}
	}
	if err := s.get("/api/v1/query?query="+url.QueryEscape(query), &answer); err != nil {
		return nil, err
	}
	if answer.Error != "" {
		return nil, errors.New(answer.Error)
	}
	var samples []sample
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		samples = append(samples, sample{r.Metric, value})
	}
	return samples, nil
}

func (s *server) get(path string, into any) error {
	request, err := http.NewRequestWithContext(s.Ctx, http.MethodGet, "http://"+s.address+path, nil)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}

// scraped is a fact: all targets answer.
func (s *server) scraped(targets int) {
	s.T.Helper()
	s.Fact("Prometheus scrapes all edges", func() error {
		up, err := s.ask("up == 1")
		if err == nil && len(up) != targets {
			err = errors.Join(fmt.Errorf("%d of %d", len(up), targets), s.why())
		}
		return err
	})
}

// why targets are not scraped.
func (s *server) why() error {
	var answer struct {
		Data struct {
			ActiveTargets []struct {
				Labels    map[string]string
				LastError string
			}
		}
	}
	err := s.get("/api/v1/targets", &answer)
	for _, t := range answer.Data.ActiveTargets {
		if t.LastError != "" {
			err = errors.Join(err, fmt.Errorf("%s: %s", t.Labels["instance"], t.LastError))
		}
	}
	return err
}

// firing are the alerts that fire now or did so lately, by name, with the instances that they fire for.
func (s *server) firing() (map[string][]string, error) {
	samples, err := s.ask(`last_over_time(ALERTS{alertstate="firing"}[5m])`)
	found := map[string][]string{}
	for _, a := range samples {
		found[a.labels["alertname"]] = append(found[a.labels["alertname"]], a.labels["instance"])
	}
	return found, err
}

// quiet is a fact: after ten scrapes no alert fires but these.
func (s *server) quiet(but ...string) {
	s.T.Helper()
	s.Fact("all edges were scraped ten times", func() error {
		few, err := s.ask("count_over_time(up[1m]) < 10")
		if err == nil && len(few) > 0 {
			err = fmt.Errorf("%v", few)
		}
		return err
	})
	s.Once("nothing is wrong yet, so no alert fires", func() error {
		now, err := s.firing()
		for name, instances := range now {
			if !slices.Contains(but, name) {
				err = errors.Join(err, fmt.Errorf("%s at %v", name, instances))
			}
		}
		return err
	})
}

// fires is a fact: each of these alerts fires, "SelvageEdgeBroken edge1" at an instance, without one at any.
func (s *server) fires(limit time.Duration, alerts ...string) {
	s.T.Helper()
	err := await.Within(s.Ctx, limit, "alerts", func() error {
		now, err := s.firing()
		if err != nil {
			return err
		}
		missing := slices.DeleteFunc(slices.Clone(alerts), func(alert string) bool {
			name, instance, one := strings.Cut(alert, " ")
			return now[name] != nil && (!one || slices.Contains(now[name], instance))
		})
		if len(missing) > 0 {
			return fmt.Errorf("%d do not fire: %s; these do: %v", len(missing), strings.Join(missing, ", "), now)
		}
		return nil
	})
	if err != nil {
		s.Fail("each fault raises its alert", err)
	}
}
