package medusa

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/stategraft/stategraft/api/node"
)

// FailedFile is where Medusa tells, by agent/python/running.py, why the last backup has
// failed, until it begins another or is started anew: its own service tells nobody.
func FailedFile(private string) string { return filepath.Join(private, "failed.json") }

// Failed is that backup; nothing where none has failed, or where it is not told, as in an
// image whose Python cannot be run.
func Failed(private string) []node.Failed {
	content, err := os.ReadFile(FailedFile(private))
	if err != nil {
		return nil
	}
	var f node.Failed
	if json.Unmarshal(content, &f) != nil || f.Name == "" {
		return nil
	}
	return []node.Failed{f}
}
