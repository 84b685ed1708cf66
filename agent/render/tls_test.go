package render

import (
	"strings"
	"testing"

	"github.com/stategraft/stategraft/agent/ini"
)

func TestGRPCTLS(t *testing.T) {
	const dir = "/etc/stategraft/grpc-tls"
	ca, certificate, key := TLSFiles(dir)
	ours := [3]string{ca, certificate, key}
	for _, c := range []struct {
		what, text, dir string
		want            [3]string // ca_cert, tls_cert, tls_key
		note            string    // of the only one; empty for none
	}{
		{"none of the user's", "", dir, ours, ""},
		{"empty ones", "[grpc]\nca_cert =\ntls_cert = \ntls_key =\n", dir, ours, ""},
		{"all of the user's", "[grpc]\nca_cert = /a\ntls_cert = /c\ntls_key = /k\n", dir, [3]string{"/a", "/c", "/k"}, "are followed instead of Secret stategraft-grpc"},
		{"all of the user's as defaults", "[DEFAULT]\nca_cert = /a\n[grpc]\nTLS_CERT = /c\ntls_key = /k\n", dir, [3]string{"/a", "/c", "/k"}, "are followed"},
		{"ours, written out", "[grpc]\nca_cert = " + ca + "\ntls_cert = " + certificate + "\ntls_key = " + key + "\n", dir, ours, ""},
		{"no certificate, which would be in the clear", "[grpc]\nca_cert = /a\n", dir, ours, "[grpc] ca_cert = /a is replaced by " + ca},
		{"no key, with which it would not start", "[grpc]\ntls_cert = /c\n", dir, ours, "[grpc] tls_cert = /c is replaced by " + certificate},
		{"off", "", "", [3]string{}, ""},
		{"off, with the user's", "[grpc]\ntls_cert = /c\n", "", [3]string{"", "/c", ""}, ""},
	} {
		with := pod
		with.GRPCTLS = c.dir
		r := Render(minimal+c.text, with)
		get := effective(t, r)
		if got := [3]string{get("grpc", "ca_cert"), get("grpc", "tls_cert"), get("grpc", "tls_key")}; got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if notes := strings.Join(r.Notes, "\n"); (c.note == "") != (notes == "") || !strings.Contains(notes, c.note) || len(r.Notes) > 1 {
			t.Errorf("%s: notes %q, want %q", c.what, r.Notes, c.note)
		}
		file, err := ini.Parse(r.Text)
		if err != nil {
			t.Fatal(err)
		}
		if uses := c.want == ours; UsesTLS(file, dir) != uses {
			t.Errorf("%s: uses ours %v", c.what, !uses)
		}
	}
}
