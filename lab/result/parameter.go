package result

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// Parameters are what a run was told and how it was done, by name.
type Parameters map[string]Parameter

// Parameter is one of them. Code reads the value; the explanation is for people alone.
type Parameter struct {
	Value       Value  `json:"value"`
	Unit        string `json:"unit,omitempty"` // of numbers: "s", "bytes", "Gbit/s"; none for counts
	Explanation string `json:"explanation,omitempty"`
}

// Value is a Number, a Bool, a Text, or a list: Numbers or Texts. A list of none is read as Texts.
type Value interface{ isValue() }

// Number is a value that is one; its unit is the parameter's.
type Number float64

// Bool is a value that is true or false.
type Bool bool

// Text is a value in words.
type Text string

// Numbers is a list of numbers, all in the parameter's unit.
type Numbers []float64

// Texts is a list of names or words.
type Texts []string

func (Number) isValue()  {}
func (Bool) isValue()    {}
func (Text) isValue()    {}
func (Numbers) isValue() {}
func (Texts) isValue()   {}

// MarshalJSON writes a list, also of none.
func (n Numbers) MarshalJSON() ([]byte, error) { return json.Marshal(append([]float64{}, n...)) }

// MarshalJSON writes a list, also of none.
func (t Texts) MarshalJSON() ([]byte, error) { return json.Marshal(append([]string{}, t...)) }

// Seconds is the unit of times.
const Seconds = "s"

// Of is a parameter without unit.
func Of(v Value) Parameter { return Parameter{Value: v} }

// Count is a whole number of things.
func Count(n int) Parameter { return Of(Number(n)) }

// Time is a time, in seconds.
func Time(d time.Duration) Parameter { return Of(Number(d.Seconds())).In(Seconds) }

// Words is a text.
func Words(s string) Parameter { return Of(Text(s)) }

// Counts is a list of whole numbers.
func Counts(list []int) Parameter {
	numbers := make(Numbers, len(list))
	for i, n := range list {
		numbers[i] = float64(n)
	}
	return Of(numbers)
}

// In is p with a unit.
func (p Parameter) In(unit string) Parameter {
	p.Unit = unit
	return p
}

// Explained is p with an explanation.
func (p Parameter) Explained(format string, args ...any) Parameter {
	p.Explanation = fmt.Sprintf(format, args...)
	return p
}

// String is value and unit for people: "50ms", "1500 bytes", "tcp, rr".
func (p Parameter) String() string {
	var words []string
	switch v := p.Value.(type) {
	case Number:
		if p.Unit == Seconds {
			return time.Duration(math.Round(float64(v) * 1e9)).String()
		}
		words = []string{number(float64(v))}
	case Bool:
		return strconv.FormatBool(bool(v))
	case Text:
		return string(v)
	case Texts:
		words = v
	case Numbers:
		for _, n := range v {
			words = append(words, number(n))
		}
	}
	return strings.TrimSpace(strings.Join(words, ", ") + " " + p.Unit)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// Number is the number of that name, 0 where there is none.
func (p Parameters) Number(name string) float64 { return float64(of[Number](p, name)) }

// Int is the whole number of that name, 0 where there is none.
func (p Parameters) Int(name string) int { return int(p.Number(name)) }

// Time is the time of that name, 0 where there is none.
func (p Parameters) Time(name string) time.Duration {
	if p[name].Unit != Seconds {
		return 0
	}
	return time.Duration(math.Round(p.Number(name) * 1e9))
}

// Bool says whether that name has the value true.
func (p Parameters) Bool(name string) bool { return bool(of[Bool](p, name)) }

// Text is the text of that name, "" where there is none.
func (p Parameters) Text(name string) string { return string(of[Text](p, name)) }

// Texts is the list of that name, nil where there is none.
func (p Parameters) Texts(name string) []string { return of[Texts](p, name) }

// Names are the names, sorted.
func (p Parameters) Names() []string { return slices.Sorted(maps.Keys(p)) }

func of[V Value](p Parameters, name string) V {
	v, _ := p[name].Value.(V)
	return v
}

// UnmarshalJSON reads a parameter, whose value is of one of the kinds.
func (p *Parameter) UnmarshalJSON(data []byte) error {
	var raw struct {
		Value       any    `json:"value"`
		Unit        string `json:"unit"`
		Explanation string `json:"explanation"`
	}
	if err := strict(data, &raw); err != nil { // not wrapped: its offset is within the parameter
		return fmt.Errorf("parameter %.80s: %s", data, err.Error())
	}
	value, err := valueOf(raw.Value)
	if err != nil {
		return fmt.Errorf("parameter %.80s: %w", data, err)
	}
	*p = Parameter{Value: value, Unit: raw.Unit, Explanation: raw.Explanation}
	return nil
}

func valueOf(raw any) (Value, error) {
	switch v := raw.(type) {
	case float64:
		return Number(v), nil
	case bool:
		return Bool(v), nil
	case string:
		return Text(v), nil
	case []any:
		return listOf(v)
	}
	return nil, errors.New("the value is neither a number, true, false, a text nor a list of these")
}

// listOf is a list, whose elements are of one kind.
func listOf(raw []any) (Value, error) {
	texts, numbers := Texts{}, Numbers{}
	for _, element := range raw {
		switch v := element.(type) {
		case string:
			texts = append(texts, v)
		case float64:
			numbers = append(numbers, v)
		}
	}
	switch len(raw) {
	case len(texts):
		return texts, nil
	case len(numbers):
		return numbers, nil
	}
	return nil, errors.New("the list holds other than texts alone or numbers alone")
}

// JSONSchemaExtend says what a value is, which the type of an interface does not.
func (Parameter) JSONSchemaExtend(s *jsonschema.Schema) {
	list := func(kind string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: kind}}
	}
	s.Properties.Set("value", &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "number"}, {Type: "boolean"}, {Type: "string"}, list("number"), list("string"),
	}})
}
