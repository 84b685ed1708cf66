package cycle

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/stategraft/stategraft/operations/kvs"
	"github.com/stategraft/stategraft/workload"
)

// annaConfig is the key of the file that Anna's nodes are configured by (agent/anna/config).
const annaConfig = "anna-config.yml"

// onDiskAlone tells whether a ConfigMap of Anna has keys be in the disk tier and not in
// memory: a node of that tier which starts anew has its files, and shows none of their keys
// until each is written again. With copies in memory nobody misses them. Where the file
// cannot be read it is taken to be so.
func onDiskAlone(m *corev1.ConfigMap) bool {
	text, ok := m.Data[annaConfig]
	if !ok {
		return false // it is not Anna's
	}
	var file struct {
		Replication struct {
			Memory *int `json:"memory"`
		} `json:"replication"`
		Policy struct {
			Tiering bool `json:"tiering"`
		} `json:"policy"`
	}
	if err := yaml.Unmarshal([]byte(text), &file); err != nil {
		return true
	}
	memory := file.Replication.Memory
	return memory != nil && *memory == 0 || file.Policy.Tiering
}

// keeps tells whether the pod has keys that are gone for clients when it is created anew, if
// it does not hand them over before.
func (m *member) keeps() bool {
	switch kvs.Role(m.pod) {
	case workload.RoleMemory:
		return true
	case workload.RoleDisk:
		return m.diskAlone
	}
	return false
}
