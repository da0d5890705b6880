package importing

import (
	"encoding/json"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaceName is the label of a namespace that has its name.
const namespaceName = "kubernetes.io/metadata.name"

// everything says whether a selector selects all.
func everything(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// selectable says whether a selector can be carried, and notes why not.
func (i *importer) selectable(object, name string, s *metav1.LabelSelector) bool {
	if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
		i.lost(object, "", nil, name+" is not valid: "+err.Error(), "correct it")
		return false
	}
	return true
}

// wanted is what a selector wants of labels: for each key the values of In, and all else as it is written.
type wanted struct {
	in     map[string][]string
	others map[string]bool
}

// wants takes a selector apart. It is not ok if a key has In twice, for then a label has to be in both.
func wants(s *metav1.LabelSelector) (w wanted, ok bool) {
	w = wanted{map[string][]string{}, map[string]bool{}}
	if s == nil {
		return w, true
	}
	for key, value := range s.MatchLabels {
		w.in[key] = []string{value}
	}
	for _, e := range s.MatchExpressions {
		if e.Operator != metav1.LabelSelectorOpIn {
			e.Values = slices.Sorted(slices.Values(e.Values))
			out, err := json.Marshal(e)
			if err != nil {
				return w, false
			}
			w.others[string(out)] = true
			continue
		}
		if _, twice := w.in[e.Key]; twice {
			return w, false
		}
		w.in[e.Key] = slices.Compact(slices.Sorted(slices.Values(e.Values)))
	}
	return w, true
}

// same says whether two selectors want the same.
func same(a, b *metav1.LabelSelector) bool {
	x, ok1 := wants(a)
	y, ok2 := wants(b)
	return ok1 && ok2 && maps.EqualFunc(x.in, y.in, slices.Equal) && maps.Equal(x.others, y.others)
}

// unite returns the selector of what either selects, if one selector can say it.
func unite(a, b *metav1.LabelSelector) (*metav1.LabelSelector, bool) {
	switch {
	case everything(a) || everything(b):
		return nil, true
	case same(a, b):
		return a, true
	}
	x, ok1 := wants(a)
	y, ok2 := wants(b)
	if !ok1 || !ok2 || len(x.in) != len(y.in) || !maps.Equal(x.others, y.others) {
		return nil, false
	}
	other := ""
	for key, values := range x.in {
		switch with, is := y.in[key]; {
		case !is, other != "" && !slices.Equal(values, with):
			return nil, false
		case !slices.Equal(values, with):
			other = key
		}
	}
	out := a.DeepCopy()
	delete(out.MatchLabels, other)
	out.MatchExpressions = slices.DeleteFunc(out.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		return e.Operator == metav1.LabelSelectorOpIn && e.Key == other
	})
	require(out, other, slices.Concat(x.in[other], y.in[other]))
	return out, true
}

// require adds that a label has one of the values.
func require(s *metav1.LabelSelector, key string, values []string) {
	values = slices.Compact(slices.Sorted(slices.Values(values)))
	s.MatchExpressions = append(s.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values})
}

// ofNamespace selects one namespace.
func ofNamespace(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{namespaceName: name}}
}
