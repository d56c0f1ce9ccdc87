// Command protobuf prints how the fields of Kubernetes' types are numbered in
// protobuf, as their Go structs' tags say it: OpenAPI does not tell. One line a
// kind (`=GROUP/VERSION/KIND TYPE`) and one line a type (`TYPE FIELD...`), where
// a FIELD is NUMBER:NAME:FLAGS:OF. FLAGS: `*` a list, `m` a map, `i` its fields
// are the surrounding ones', `z` its zero value is not stored. OF: s text, b
// bytes, n number, t boolean, f float, or the type's name.
//
//	go run . | zstd -19 > ../protobuf.bin
package main

import (
	"fmt"
	"os"
	"path"
	"reflect"
	"regexp"
	"sort"
	"strings"

	"k8s.io/client-go/kubernetes/scheme"
)

// Versions that a server serves unless it is told otherwise, and a few more.
var stable = regexp.MustCompile(`^v[0-9]+$`)

var lines = map[string]string{}

func main() {
	var kinds []string
	for gvk, kind := range scheme.Scheme.AllKnownTypes() {
		if !stable.MatchString(gvk.Version) || strings.HasSuffix(gvk.Kind, "List") || gvk.Kind == "WatchEvent" {
			continue
		}
		if _, ok := reflect.New(kind).Interface().(interface{ Marshal() ([]byte, error) }); !ok {
			continue
		}
		kinds = append(kinds, fmt.Sprintf("=%s/%s/%s %s", gvk.Group, gvk.Version, gvk.Kind, walk(kind)))
	}
	sort.Strings(kinds)
	var types []string
	for name, fields := range lines {
		types = append(types, name+fields)
	}
	sort.Strings(types)
	fmt.Println(strings.Join(append(kinds, types...), "\n"))
}

// walk notes a struct and what it is made of; it gives the name.
func walk(of reflect.Type) string {
	// Groups of one name and version do not meet: core/v1, meta/v1.
	name := path.Base(path.Dir(of.PkgPath())) + "." + path.Base(of.PkgPath()) + "." + of.Name()
	if _, known := lines[name]; known {
		return name
	}
	lines[name] = ""
	var fields strings.Builder
	for n := 0; n < of.NumField(); n++ {
		field := of.Field(n)
		tag := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue
		}
		json := strings.Split(field.Tag.Get("json"), ",")
		flags := ""
		inner := field.Type
		optional := inner.Kind() != reflect.Pointer && strings.Contains(field.Tag.Get("json"), "omitempty")
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case inner.Kind() == reflect.Map:
			flags, inner, optional = "m", inner.Elem(), false
		case inner.Kind() == reflect.Slice && inner.Elem().Kind() != reflect.Uint8:
			flags, inner, optional = "*", inner.Elem(), false
		}
		if json[0] == "" {
			flags += "i"
		}
		if optional && inner.Kind() != reflect.Struct {
			flags += "z"
		}
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		fmt.Fprintf(&fields, " %s:%s:%s:%s", tag[1], json[0], flags, scalar(inner))
	}
	lines[name] = fields.String()
	return name
}

func scalar(of reflect.Type) string {
	switch of.Kind() {
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "t"
	case reflect.Int32, reflect.Int64, reflect.Int, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return "n"
	case reflect.Float64:
		return "f"
	case reflect.Struct:
		return walk(of)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "b"
		}
		// A named list, such as metav1.Verbs, is a message of items.
		return "list.of." + scalar(of.Elem())
	}
	fmt.Fprintln(os.Stderr, "protobuf: no form for", of)
	os.Exit(1)
	return ""
}
