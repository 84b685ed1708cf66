package render

import (
	"fmt"
	"net/netip"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

// Yaml decides which cassandra.yaml Medusa reads: the shared one as it is
// (text is empty), or a stand-in with the keys that Medusa reads
// (medusa/cassandra_utils.py, CassandraConfigReader). The note says why, where
// the shared one cannot be used; a problem is one that no stand-in solves.
//
// A stand-in has no listen_address: Medusa then takes the pod's own, while a
// loopback address or an unfilled template would break its token map.
func Yaml(shared []byte, pod Pod) (text, note, problem string) {
	if len(shared) == 0 {
		return standIn(nil, pod), "", ""
	}
	var config map[string]any
	if err := yaml.Unmarshal(shared, &config); err != nil {
		return standIn(nil, pod), fmt.Sprintf("the shared cassandra.yaml cannot be read (%v); a stand-in is used", firstLine(err)), ""
	}
	directories, _ := config["data_file_directories"].([]any)
	if len(directories) > 1 {
		return "", "", fmt.Sprintf("cassandra.yaml: data_file_directories has %d entries; Medusa supports only one", len(directories))
	}
	if address := fmt.Sprint(config["listen_address"]); config["listen_address"] != nil && unreachable(address) {
		return standIn(config, pod), fmt.Sprintf("cassandra.yaml: listen_address %s is not the pod's; a stand-in without it is used", address), ""
	}
	if len(directories) == 0 && dataDirectory(pod) != defaultData {
		return standIn(config, pod), "", ""
	}
	return "", "", ""
}

// defaultData is what Medusa takes where cassandra.yaml says nothing.
const defaultData = "/var/lib/cassandra/data"

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func unreachable(address string) bool {
	if address == "localhost" || strings.ContainsAny(address, "${") {
		return true
	}
	ip, err := netip.ParseAddr(address)
	return err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// copied are the keys of a shared cassandra.yaml that a stand-in keeps.
var copied = []string{
	"data_file_directories", "commitlog_directory", "saved_caches_directory", "metadata_directory",
	"native_transport_port", "native_transport_port_ssl", "storage_port", "ssl_storage_port",
}

func standIn(shared map[string]any, pod Pod) string {
	out := map[string]any{"data_file_directories": []string{dataDirectory(pod)}}
	if pod.Commitlog != "" {
		out["commitlog_directory"] = pod.Commitlog
	} else {
		out["commitlog_directory"] = path.Join(path.Dir(dataDirectory(pod)), "commitlog")
	}
	if pod.SavedCaches != "" {
		out["saved_caches_directory"] = pod.SavedCaches
	} else {
		out["saved_caches_directory"] = path.Join(path.Dir(dataDirectory(pod)), "saved_caches")
	}
	if pod.CQLPort != 0 {
		out["native_transport_port"] = pod.CQLPort
	}
	for _, key := range copied {
		if value := shared[key]; value != nil {
			out[key] = value
		}
	}
	// Medusa reads the port from one of two keys by this switch.
	if client, ok := shared["client_encryption_options"].(map[string]any); ok && client["enabled"] != nil {
		out["client_encryption_options"] = map[string]any{"enabled": client["enabled"]}
	}
	text, err := yaml.Marshal(out)
	if err != nil {
		return "" // maps of plain values are always written
	}
	return "# Written by stategraft-agent for Medusa; no database reads it.\n" + string(text)
}

// dataDirectory is the database's, guessed where only the volume is known: the
// volume itself if it is mounted on a directory of that name, else the
// directory in it that most images use.
func dataDirectory(pod Pod) string {
	switch {
	case pod.DataDirectory != "":
		return pod.DataDirectory
	case pod.DataMount == "":
		return defaultData
	case path.Base(pod.DataMount) == "data":
		return pod.DataMount
	}
	return path.Join(pod.DataMount, "data")
}
