// Vidra-oracle answers what the field managers of k8s.io/apimachinery do, without a server: the chain that
// kube-apiserver builds for a kind, over unstructured objects, with neither defaults nor conversion.
//
// It reads JSON lines. The first holds the OpenAPI v3 components that all kinds are made of and the kinds by
// name; each further one is a sequence of steps over one object that does not exist at first. For each it
// writes one line: the answers to the steps. Times in managedFields are left out.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/klog/v2"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Types is the first line.
type Types struct {
	Components map[string]*spec.Schema `json:"components"`
	Kinds      map[string]Kind         `json:"kinds"`
}

// Kind is one kind and what its strategies reset.
type Kind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
	// Declared by a CRD.
	Custom bool `json:"custom"`
	// Fields that a write through a subresource ("" for none) does not change, as paths.
	Reset map[string][][]string `json:"reset"`
}

// Sequence is one further line.
type Sequence struct {
	Kind  string `json:"kind"`
	Steps []Step `json:"steps"`
}

// Step is one request.
type Step struct {
	// apply, or update for all else.
	Do          string         `json:"do"`
	Manager     string         `json:"manager"`
	Force       bool           `json:"force"`
	Subresource string         `json:"subresource"`
	Object      map[string]any `json:"object"`
}

// Answer is what came of a step.
type Answer struct {
	// The object as it is then, with managedFields.
	Object map[string]any `json:"object,omitempty"`
	// Field and message of each conflict.
	Conflicts [][2]string `json:"conflicts,omitempty"`
	// Another refusal.
	Refused string `json:"refused,omitempty"`
}

// bare makes, converts and defaults nothing.
type bare struct{}

func (bare) New(gvk schema.GroupVersionKind) (runtime.Object, error) { return empty(gvk), nil }

func (bare) Convert(in, out, context any) error { return errors.New("not converted") }

func (bare) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

func (bare) ConvertFieldLabel(_ schema.GroupVersionKind, _, _ string) (string, string, error) {
	return "", "", errors.New("not converted")
}

func (bare) Default(runtime.Object) {}

func empty(gvk schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(gvk)
	return object
}

// Managers are the field managers of one kind by subresource.
type Managers struct {
	gvk    schema.GroupVersionKind
	fields map[string]*managedfields.FieldManager
}

func managersOf(converter managedfields.TypeConverter, kind Kind) (*Managers, error) {
	gvk := schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind}
	made := &Managers{gvk: gvk, fields: map[string]*managedfields.FieldManager{}}
	for subresource, paths := range kind.Reset {
		set := fieldpath.NewSet()
		for _, path := range paths {
			elements := make([]any, len(path))
			for at, name := range path {
				elements[at] = name
			}
			set.Insert(fieldpath.MakePathOrDie(elements...))
		}
		reset := fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{
			fieldpath.APIVersion(gvk.GroupVersion().String()): set,
		})
		build := managedfields.NewDefaultFieldManager
		if kind.Custom {
			build = managedfields.NewDefaultCRDFieldManager
		}
		fields, err := build(converter, bare{}, bare{}, bare{}, gvk, gvk.GroupVersion(), subresource, reset)
		if err != nil {
			return nil, err
		}
		made.fields[subresource] = fields
	}
	return made, nil
}

// perform does one step; the object that is then the live one is nil where it did not change.
func (m *Managers) perform(live *unstructured.Unstructured, step Step) (now *unstructured.Unstructured, answer Answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			now, answer = nil, Answer{Refused: fmt.Sprint(panicked)}
		}
	}()
	object := &unstructured.Unstructured{Object: step.Object}
	var made runtime.Object
	var err error
	switch fields := m.fields[step.Subresource]; {
	case fields == nil:
		err = fmt.Errorf("no subresource %q", step.Subresource)
	case step.Do == "apply":
		made, err = fields.Apply(live.DeepCopy(), object, step.Manager, step.Force)
	default:
		// As the server does: where this fails, managedFields are dropped.
		made = fields.UpdateNoErrors(live.DeepCopy(), object, step.Manager)
	}
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status) && apierrors.IsConflict(err):
		for _, cause := range status.Status().Details.Causes {
			answer.Conflicts = append(answer.Conflicts, [2]string{cause.Field, cause.Message})
		}
		return nil, answer
	case err != nil:
		return nil, Answer{Refused: err.Error()}
	}
	now = made.(*unstructured.Unstructured)
	// A live object is told from none by its uid.
	now.SetUID("u")
	entries := now.GetManagedFields()
	for at := range entries {
		entries[at].Time = &metav1.Time{}
	}
	shown := now.DeepCopy()
	shown.SetManagedFields(entries)
	return now, Answer{Object: shown.Object}
}

func (m *Managers) run(steps []Step) []Answer {
	live := empty(m.gvk)
	answers := make([]Answer, 0, len(steps))
	for _, step := range steps {
		now, answer := m.perform(live, step)
		if now != nil {
			live = now
		}
		answers = append(answers, answer)
	}
	return answers
}

func serve() error {
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	var types Types
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read the types: %w", err)
	}
	if err := json.Unmarshal(line, &types); err != nil {
		return fmt.Errorf("read the types: %w", err)
	}
	converter, err := managedfields.NewTypeConverter(types.Components, false)
	if err != nil {
		return err
	}
	kinds := map[string]*Managers{}
	for name, kind := range types.Kinds {
		if kinds[name], err = managersOf(converter, kind); err != nil {
			return fmt.Errorf("kind %s: %w", name, err)
		}
	}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return out.Flush()
		}
		var sequence Sequence
		if err := kjson.UnmarshalCaseSensitivePreserveInts(line, &sequence); err != nil {
			return fmt.Errorf("read a sequence: %w", err)
		}
		kind := kinds[sequence.Kind]
		if kind == nil {
			return fmt.Errorf("no kind %q", sequence.Kind)
		}
		answer, err := json.Marshal(kind.run(sequence.Steps))
		if err != nil {
			return err
		}
		if _, err := out.Write(append(answer, '\n')); err != nil {
			return err
		}
		// One who waits for this answer gets it.
		if lines.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

func main() {
	// What could not be booked is in the answers.
	klog.SetLogger(logr.Discard())
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "vidra-oracle:", err)
		os.Exit(1)
	}
}
