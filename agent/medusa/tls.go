package medusa

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/stategraft/stategraft/agent/files"
	"github.com/stategraft/stategraft/agent/ini"
	"github.com/stategraft/stategraft/agent/render"
)

// ErrNotServed says that there is nothing yet to serve gRPC securely with. In the
// clear, everybody in the cluster's network could purge the backups.
var ErrNotServed = errors.New("gRPC is not served in the clear")

// CheckTLS tells whether the gRPC service can start with the configuration at
// path: where that names the files of Secret stategraft-grpc, they have to be
// there and to belong together. While the Secret changes they may not. What is
// missing is an error that is ErrNotServed. Other files are Medusa's to judge.
//
// wrapped says that Medusa runs in python.Serve, which does not let one that knows
// no TLS serve in the clear. Without that nothing is served where TLS is asked for.
func CheckTLS(places files.Places, path string, wrapped bool) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	file, err := ini.Parse(string(content))
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if certificate, _ := file.Get("grpc", "tls_cert"); certificate != "" && !wrapped {
		return fmt.Errorf("%w: this image's Python, .venv/bin/python in %s, cannot be run, so nothing keeps a Medusa without TLS, as those before 0.27 are, from it; "+
			"take another image (annotation stategraft.io/medusa-image), or do without TLS: annotation stategraft.io/grpc-tls: \"off\", and no tls_cert in medusa.ini", ErrNotServed, Home)
	}
	if !render.UsesTLS(file, places.GRPCTLS) {
		return nil
	}
	ca, certificate, key := render.TLSFiles(places.GRPCTLS)
	authority, err := os.ReadFile(ca)
	if err == nil {
		_, err = tls.LoadX509KeyPair(certificate, key)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: waiting for Secret stategraft-grpc with tls.crt, tls.key and ca.crt in the pod's namespace; Stategraft's controller makes it "+
			"in every namespace with the label stategraft.io/inject: enabled, and it is seen here within two minutes; annotation stategraft.io/grpc-tls: \"off\" does without", ErrNotServed)
	case err != nil:
		return fmt.Errorf("%w: certificate and key of Secret stategraft-grpc cannot be used: %w", ErrNotServed, err)
	case !x509.NewCertPool().AppendCertsFromPEM(authority):
		return fmt.Errorf("%w: ca.crt of Secret stategraft-grpc holds no certificate, so no client could be verified", ErrNotServed)
	}
	return nil
}
