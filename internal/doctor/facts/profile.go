package facts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/selvage/selvage/internal/printable"
)

// Schema names the version of a profile; it changes when a reader of the old one would misread the new one.
const Schema = "selvage.dev/facts/v1"

// Profile is hosts as they were at a time.
type Profile struct {
	Schema string    `json:"schema"`
	Taken  time.Time `json:"taken"`
	Hosts  []Host    `json:"hosts"`
}

// WriteFile writes the profile as indented JSON, in place of an older one at once.
func (p Profile) WriteFile(name string) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("profile %s: %w", name, err)
	}
	next := name + ".next"
	if err := os.WriteFile(next, append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return os.Rename(next, name)
}

// mostProfile is more than any profile has.
const mostProfile = 64 << 20

// ReadFile reads a profile. Fields that it does not know are an error, as they would be no drift.
func ReadFile(name string) (p Profile, err error) {
	info, err := os.Stat(name)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > mostProfile) {
		err = fmt.Errorf("%s is no regular file of at most %d MiB", name, mostProfile>>20)
	}
	if err != nil {
		return p, fmt.Errorf("profile: %w", err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return p, fmt.Errorf("profile: %w", err)
	}
	data = printable.JSON(data)
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return p, fmt.Errorf("profile %s: %w", name, err)
	}
	if head.Schema != Schema {
		return p, fmt.Errorf("profile %s: its schema is %q, this version reads %q: write it with --save", name, head.Schema, Schema)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return p, fmt.Errorf("profile %s: %w", name, err)
	}
	if len(p.Hosts) == 0 {
		return p, fmt.Errorf("profile %s: it has no host", name)
	}
	return p, nil
}

// Of is the host of a place. A profile of one host is that of every place.
func (p Profile) Of(place string) (*Host, error) {
	for i := range p.Hosts {
		if p.Hosts[i].Place == place {
			return &p.Hosts[i], nil
		}
	}
	if len(p.Hosts) == 1 {
		return &p.Hosts[0], nil
	}
	var have []string
	for _, h := range p.Hosts {
		have = append(have, h.Place)
	}
	return nil, fmt.Errorf("the profile has no %s; it has %v", place, have)
}
