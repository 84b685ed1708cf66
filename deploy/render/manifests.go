package render

import (
	"context"
	"fmt"
	"path/filepath"
)

// manifest is a file beside the chart.
type manifest struct {
	name, mode, about string
}

var manifests = []manifest{
	{"stategraft.yaml", "cert-manager", "Stategraft with certificates of cert-manager, which has to be in the cluster."},
	{"stategraft-self-signed.yaml", "self-signed", "Stategraft with certificates that it makes and renews itself."},
}

const header = `# %s
#
#   kubectl apply -f deploy/%s
#
# Rendered from deploy/chart by ` + "`make manifests`" + `; do not edit.
`

// Manifests renders the manifests that are kept in the repository. deploy is the
// folder of that name; the answer is by the names of the files in it.
func (h *Helm) Manifests(ctx context.Context, deploy string) (map[string][]byte, error) {
	rendered := map[string][]byte{}
	for _, m := range manifests {
		// Without helm there is nobody else to make the namespace.
		text, err := h.Template(ctx, filepath.Join(deploy, "chart"),
			"--set", "namespace.create=true", "--set", "certificates.mode="+m.mode)
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", m.name, err)
		}
		rendered[m.name] = append(fmt.Appendf(nil, header, m.about, m.name), text...)
	}
	return rendered, nil
}
