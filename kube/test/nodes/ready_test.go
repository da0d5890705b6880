package nodes

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/selvage/selvage/kube/apis/v1alpha1"
	"github.com/selvage/selvage/lab/dut"
)

// untouched is a fact: nodes without any policy are ready, to helm test and to a roll-over.
func (b *managed) untouched() {
	b.T.Helper()
	b.Fact("nodes without a policy are ready", func() error {
		var errs []error
		for _, h := range b.Hosts {
			n := &v1alpha1.EgressNode{}
			err := b.c.Get(b.Ctx, client.ObjectKey{Name: dut.EdgeName(h)}, n)
			if err == nil && !meta.IsStatusConditionTrue(n.Status.Conditions, v1alpha1.ConditionReady) {
				err = fmt.Errorf("%s: %+v", h.Name, n.Status.Conditions)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	b.ready(1, 2, 3, 4)
}

// ready is a fact: the agents of these nodes say that their edges serve what they should, and no others do.
func (b *managed) ready(numbers ...int) {
	b.T.Helper()
	b.Fact(fmt.Sprintf("agents %v are ready", numbers), func() error {
		var errs []error
		for i, h := range b.Hosts {
			status, text, err := b.health("http://" + b.agents[h.Name].Health + "/readyz?verbose")
			if want := slices.Contains(numbers, i+1); err == nil && want != (status == http.StatusOK) {
				err = fmt.Errorf("that of %s says %d %s", h.Name, status, text)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// health is what an agent answers to a kubelet.
func (b *managed) health(url string) (status int, text string, err error) {
	request, err := http.NewRequestWithContext(b.Ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
