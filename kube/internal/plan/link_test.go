package plan

import (
	"testing"

	"github.com/selvage/selvage/internal/doctor"
)

// The doctor tells by the interface that packets of pods are led to an edge.
func TestDoctorKnowsTheLink(t *testing.T) {
	if doctor.PodLink != DefaultLinkPair.Host {
		t.Errorf("the doctor looks for %s, it is %s", doctor.PodLink, DefaultLinkPair.Host)
	}
}
