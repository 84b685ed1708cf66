package render

import (
	"path/filepath"

	"github.com/stategraft/stategraft/agent/ini"
)

// TLSFiles are the files of the gRPC service in the directory of Secret
// stategraft-grpc: the authority that clients are verified with, the service's
// certificate and its key.
func TLSFiles(dir string) (ca, certificate, key string) {
	return filepath.Join(dir, "ca.crt"), filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
}

// UsesTLS tells whether an effective medusa.ini has Medusa serve with the
// certificate in the directory.
func UsesTLS(file *ini.File, dir string) bool {
	_, certificate, _ := TLSFiles(dir)
	written, _ := file.Get("grpc", "tls_cert")
	return written == certificate
}

// grpcTLS has Medusa ask its clients for a certificate, with the files in the
// directory; an empty one leaves everything to the user. With tls_cert Medusa
// (since 0.27) insists on a client's certificate by ca_cert; without it Medusa
// serves anybody in the clear, whatever the other two say
// (medusa/service/grpc/server.py, serve). So the user's own are followed where
// all three are there, and a part of them is not.
func (r *Result) grpcTLS(file *ini.File, dir string) {
	if dir == "" {
		return
	}
	ca, certificate, key := TLSFiles(dir)
	ours := [...][2]string{{"ca_cert", ca}, {"tls_cert", certificate}, {"tls_key", key}}
	given, others := 0, false
	for _, k := range ours {
		if written, _ := file.Get("grpc", k[0]); written != "" {
			given++
			others = others || written != k[1]
		}
	}
	if given == len(ours) {
		if others {
			r.note("medusa.ini: [grpc] ca_cert, tls_cert and tls_key are followed instead of Secret stategraft-grpc: Stategraft's controllers are served only where that ca_cert has signed theirs")
		}
		return
	}
	for _, k := range ours {
		if written, _ := file.Get("grpc", k[0]); written != "" && written != k[1] {
			r.note("medusa.ini: [grpc] %s = %s is replaced by %s, as it takes all of ca_cert, tls_cert and tls_key to use others than Secret stategraft-grpc's", k[0], written, k[1])
		}
		file.Set("grpc", k[0], k[1])
	}
}
