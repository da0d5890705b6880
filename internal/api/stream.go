package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// WriteJSON writes a document as json.Marshal has it, and a newline, entry by entry: a list, or the lists that are
// fields of a document, are never text as a whole. After an error part of it may have been written.
func WriteJSON(w io.Writer, document any) error {
	const piece = 16 << 10
	b := bufio.NewWriterSize(w, piece)
	if err := writeValue(b, reflect.ValueOf(document)); err != nil {
		return err
	}
	if err := b.WriteByte('\n'); err != nil {
		return err
	}
	return b.Flush()
}

func writeValue(b *bufio.Writer, v reflect.Value) error {
	switch {
	case !v.IsValid():
	case isList(v):
		return writeList(b, v)
	case v.Kind() == reflect.Struct && !v.Type().Implements(reflect.TypeFor[json.Marshaler]()):
		return writeStruct(b, v)
	}
	return writeOne(b, v)
}

// isList reports whether a value is a list of entries that JSON has as such.
func isList(v reflect.Value) bool {
	if v.Kind() != reflect.Slice || v.IsNil() || v.Type().Implements(reflect.TypeFor[json.Marshaler]()) {
		return false
	}
	return v.Type().Elem().Kind() == reflect.Struct
}

func writeOne(b *bufio.Writer, v reflect.Value) error {
	var document any
	if v.IsValid() {
		document = v.Interface()
	}
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	_, err = b.Write(text)
	return err
}

func writeList(b *bufio.Writer, v reflect.Value) error {
	var entry bytes.Buffer // of all entries, one after the other
	enc := json.NewEncoder(&entry)
	if err := b.WriteByte('['); err != nil {
		return err
	}
	for i := range v.Len() {
		entry.Reset()
		if err := enc.Encode(v.Index(i).Addr().Interface()); err != nil {
			return err
		}
		text := bytes.TrimSuffix(entry.Bytes(), []byte("\n"))
		if i < v.Len()-1 {
			text = append(text, ',')
		}
		if _, err := b.Write(text); err != nil {
			return err
		}
	}
	return b.WriteByte(']')
}

// writeStruct has encoding/json write all but the lists, of which it has one entry, and puts those in their places.
func writeStruct(b *bufio.Writer, v reflect.Value) error {
	rest := reflect.New(v.Type()).Elem()
	rest.Set(v)
	lists := map[string]reflect.Value{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if v.Type().Field(i).IsExported() && isList(v.Field(i)) && v.Field(i).Len() > 1 && name != "" && name != "-" {
			lists[name] = v.Field(i)
			rest.Field(i).Set(v.Field(i).Slice(0, 1))
		}
	}
	text, err := json.Marshal(rest.Interface())
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return err
	}
	written := int64(0)
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		list, ok := lists[fmt.Sprint(key)]
		if !ok {
			continue
		}
		end := dec.InputOffset()
		if _, err := b.Write(text[written : end-int64(len(value))]); err != nil {
			return err
		}
		if err := writeList(b, list); err != nil {
			return err
		}
		written = end
	}
	_, err = b.Write(text[written:])
	return err
}

// ReadJSON reads a document, a list entry by entry.
func ReadJSON(r io.Reader, document any) error {
	dec := json.NewDecoder(r)
	v := reflect.ValueOf(document).Elem()
	if v.Kind() != reflect.Slice || reflect.PointerTo(v.Type()).Implements(reflect.TypeFor[json.Unmarshaler]()) || v.Type().Elem().Kind() != reflect.Struct {
		return dec.Decode(document)
	}
	begin, err := dec.Token()
	if err != nil || begin == nil { // null
		return err
	}
	if begin != json.Delim('[') {
		return fmt.Errorf("it begins with %v, and is no list", begin)
	}
	list := reflect.MakeSlice(v.Type(), 0, 0)
	for dec.More() {
		entry := reflect.New(v.Type().Elem())
		if err := dec.Decode(entry.Interface()); err != nil {
			return err
		}
		list = reflect.Append(list, entry.Elem())
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	v.Set(list)
	return nil
}
