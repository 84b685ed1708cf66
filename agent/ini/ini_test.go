package ini

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
)

// cases are files and what Python makes of them: an error, or section → key → value.
var cases = []struct {
	name, text string
	want       map[string]map[string]string
	wrong      string // part of the error
}{
	{"plain", "[storage]\nbucket_name = b\nPort: 9000\n", map[string]map[string]string{"storage": {"bucket_name": "b", "port": "9000"}}, ""},
	{"comments", "# a\n[storage]\n; b\na = 1 ; not a comment\n  # c\nb=2\n", map[string]map[string]string{"storage": {"a": "1 ; not a comment", "b": "2"}}, ""},
	{"several lines", "[s]\na = 1\n  2\n\n  # no\n\t3 = x\n\nb =\n  [y]\n", map[string]map[string]string{"s": {"a": "1\n2\n\n3 = x", "b": "\n[y]"}}, ""},
	{"windows", "[s]\r\na = 1\r\nb = 2\r", map[string]map[string]string{"s": {"a": "1", "b": "2"}}, ""},
	{"defaults", "[DEFAULT]\nx = 1\n[s]\ny = 2\n[DEFAULT]\nz = 3\n", map[string]map[string]string{"s": {"x": "1", "y": "2", "z": "3"}}, ""},
	{"percent", "[s]\na = %(b)s %\n", map[string]map[string]string{"s": {"a": "%(b)s %"}}, ""},
	{"odd header", "[a]b] tail\nk = v\n", map[string]map[string]string{"a]b": {"k": "v"}}, ""},
	{"indented section", "  [s]\n  a = 1\n  b = 2\n", map[string]map[string]string{"s": {"a": "1", "b": "2"}}, ""},
	{"value holds delimiters", "[s]\nurl = http://h:1/x=y\n", map[string]map[string]string{"s": {"url": "http://h:1/x=y"}}, ""},
	{"empty value", "[s]\na =\nb = 1\n", map[string]map[string]string{"s": {"a": "", "b": "1"}}, ""},
	{"separators are space", "[s]\na\x1f = \x1c1\n", map[string]map[string]string{"s": {"a": "1"}}, ""},
	{"empty", "", map[string]map[string]string{}, ""},
	{"no section", "a = 1\n", nil, "before the first [section]"},
	{"no delimiter", "[s]\nword\n", nil, "line 2"},
	{"no key", "[s]\n= 1\n", nil, "without a key"},
	{"key twice", "[s]\na = 1\nA = 2\n", nil, "key a is already given"},
	{"section twice", "[s]\na = 1\n[t]\n[s]\n", nil, "section [s] is already given"},
	{"mark of byte order", "\ufeff[s]\n", nil, "before the first"},
}

func asMap(f *File) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, name := range f.Sections() {
		all[name] = map[string]string{}
		for _, from := range []string{Default, name} {
			if s := f.section(from); s != nil {
				for key := range s.values {
					all[name][key], _ = f.Get(name, key)
				}
			}
		}
	}
	return all
}

func text(t *testing.T, v any) string {
	t.Helper()
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestParse(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f, err := Parse(c.text)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Fatalf("error %v, want one with %q", err, c.wrong)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := text(t, asMap(f)); got != text(t, c.want) {
				t.Errorf("read %s, want %s", got, text(t, c.want))
			}
			again, err := Parse(f.String())
			if err != nil {
				t.Fatalf("what was written cannot be read: %v\n%s", err, f)
			}
			if got := text(t, asMap(again)); got != text(t, c.want) {
				t.Errorf("written and read %s, want %s", got, text(t, c.want))
			}
		})
	}
}

func TestSet(t *testing.T) {
	f, err := Parse("[DEFAULT]\nport = 1\n[grpc]\nenabled = 0\n")
	if err != nil {
		t.Fatal(err)
	}
	f.Set("grpc", "enabled", "1")
	f.Set("kubernetes", "cassandra_url", "http://127.0.0.1:1/x")
	f.Remove("gone")
	want := "[DEFAULT]\nport = 1\n\n[grpc]\nenabled = 1\n\n[kubernetes]\ncassandra_url = http://127.0.0.1:1/x\n"
	if f.String() != want {
		t.Errorf("got\n%s\nwant\n%s", f, want)
	}
	if v, _ := f.Get("kubernetes", "port"); v != "1" {
		t.Errorf("port %q is not inherited", v)
	}
	f.Remove("grpc")
	if _, ok := f.Get("grpc", "enabled"); ok {
		t.Error("a removed section is still there")
	}
}

// python reads files with the parser that Medusa uses and prints what it read.
const python = `
import configparser, io, json, sys
out = []
for text in json.load(sys.stdin):
    c = configparser.ConfigParser(interpolation=None)
    try:
        c.read_file(io.StringIO(text, newline=None))
        out.append({s: dict(c[s]) for s in c.sections()})
    except configparser.Error:
        out.append(None)
print(json.dumps(out))
`

// TestLikePython compares with configparser itself, on the cases and on all
// short files over an alphabet of what matters to it.
func TestLikePython(t *testing.T) {
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to compare with")
	}
	var texts []string
	for _, c := range cases {
		texts = append(texts, c.text)
	}
	parts := []string{"[s]\n", "[t]x\n", "a = 1\n", "A: 2\n", "  b = 3\n", "   c\n", "\n", "# d\n", "  ; e\n", "f\n", "[DEFAULT]\n", "g =\n"}
	var grow func(prefix string, depth int)
	grow = func(prefix string, depth int) {
		texts = append(texts, prefix)
		if depth == 0 {
			return
		}
		for _, part := range parts {
			grow(prefix+part, depth-1)
		}
	}
	grow("[s]\n", 3)
	command := exec.Command(interpreter, "-c", python)
	command.Stdin = strings.NewReader(text(t, texts))
	out, err := command.Output()
	if err != nil {
		t.Fatalf("run python: %v", err)
	}
	var want []map[string]map[string]string
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	for i, input := range texts {
		f, err := Parse(input)
		if err != nil {
			if want[i] != nil {
				t.Fatalf("%q: error %v, Python reads %v", input, err, want[i])
			}
			continue
		}
		if want[i] == nil {
			t.Fatalf("%q: read, Python refuses it", input)
		}
		if got := text(t, asMap(f)); got != text(t, want[i]) {
			t.Fatalf("%q: read %s, Python %s", input, got, text(t, want[i]))
		}
		again, err := Parse(f.String())
		if err != nil || text(t, asMap(again)) != text(t, want[i]) {
			t.Fatalf("%q: written as %q, which reads differently: %v", input, f.String(), err)
		}
	}
}
