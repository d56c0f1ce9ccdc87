package bed

// Which flags are taken, and which names members get.

import (
	"io"
	"slices"
	"testing"
)

func TestMemberNamesFillUpWithDefaults(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"berlin", "tokyo", "austin"}},
		{[]string{"--members", "0"}, nil},
		{[]string{"--members", "7"}, []string{"berlin", "tokyo", "austin", "oslo", "lima", "m6", "m7"}},
		{[]string{"--names", "a,b"}, []string{"a", "b"}},
		{[]string{"--members", "3", "--names", "tokyo,m6"}, []string{"tokyo", "m6", "berlin"}},
	} {
		got, err := parseOptions(c.args, io.Discard)
		if err != nil || !slices.Equal(got.members, c.want) {
			t.Errorf("%v: got %v, %v; want %v", c.args, got.members, err, c.want)
		}
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"--members", "-1"},
		{"--members", "1", "--names", "a,b"},
		{"--names", "a,a"},
		{"--names", "hub"},
		{"--names", "Upper"},
		{"--names", "a,"},
		{"extra"},
		{"--unknown"},
	} {
		if _, err := parseOptions(args, io.Discard); err == nil {
			t.Errorf("%v was taken", args)
		}
	}
}
