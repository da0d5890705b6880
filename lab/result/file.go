package result

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/selvage/selvage/internal/printable"
)

// Write writes r as indented JSON. It refuses a result of another schema than
// Schema, parameters without a value, and figures that JSON cannot carry (NaN, infinities).
func Write(w io.Writer, r Result) error {
	if r.Schema != Schema {
		return fmt.Errorf("write result: schema is %q, this version writes %q", r.Schema, Schema)
	}
	for _, name := range r.Parameters.Names() {
		if r.Parameters[name].Value == nil {
			return fmt.Errorf("write result: the parameter %s has no value", name)
		}
	}
	out, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	if _, err := w.Write(append(out, '\n')); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// Read reads one result. The schema is looked at first, so a result of another
// version is named as such and not as a list of unknown fields; after that
// unknown fields, wrong types and trailing data are errors.
func Read(rd io.Reader) (Result, error) {
	data, err := io.ReadAll(rd)
	if err != nil {
		return Result{}, fmt.Errorf("read result: %w", err)
	}
	data = printable.JSON(data) // somebody else may have written it
	if err := checkSchema(data); err != nil {
		return Result{}, err
	}
	var r Result
	if err := strict(data, &r); err != nil {
		return Result{}, fmt.Errorf("read result: %w", located(data, err))
	}
	return r, nil
}

// strict decodes one document, whose fields are all known.
func strict(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// ReadFile reads the result in the named file, which gzip has compressed if its name ends with .gz; errors
// name the file.
func ReadFile(name string) (Result, error) {
	f, err := os.Open(name)
	if err != nil {
		return Result{}, fmt.Errorf("read result: %w", err)
	}
	defer f.Close()
	var rd io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if rd, err = gzip.NewReader(f); err != nil {
			return Result{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	r, err := Read(rd)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func checkSchema(data []byte) error {
	var head struct {
		Schema *string `json:"schema"`
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return errors.New("read result: the document is empty")
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return fmt.Errorf("read result: not a JSON document: %w", located(data, err))
	}
	switch {
	case head.Schema == nil:
		return fmt.Errorf("read result: no \"schema\" field: this is not a result of selvage lab (want %q)", Schema)
	case *head.Schema != Schema:
		return fmt.Errorf("read result: schema is %q, this version reads %q: use the selvage that wrote it", *head.Schema, Schema)
	}
	return nil
}

// located adds the line to an error of encoding/json that knows its offset.
func located(data []byte, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("line %d: %w", line(data, syntax.Offset), err)
	case errors.As(err, &kind):
		return fmt.Errorf("line %d: %s is a %s, want %s", line(data, kind.Offset), kind.Field, kind.Value, kind.Type)
	}
	return err
}

func line(data []byte, offset int64) int {
	offset = min(offset, int64(len(data)))
	return 1 + bytes.Count(data[:offset], []byte{'\n'})
}
