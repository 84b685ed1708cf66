package patches_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stategraft/stategraft/patches"
)

// What injected containers read from files comes in variables, and no other way.
func TestAdoptContents(t *testing.T) {
	all := patches.Default()
	all.CQLSecret, all.JMXSecret, all.MedusaConfig, all.StorageSecret, all.ConfigMap = "cql", "jmx", "ini", "s3", "own"
	none := patches.Default()
	none.StorageSecret, none.GRPCTLS = "", false
	want := func(parts ...string) string { return strings.Join(parts, "\n") }
	medusa := want("STATEGRAFT_FILE_INI=configMap ini/medusa.ini", "STATEGRAFT_FILE_CREDENTIALS=secret s3/credentials",
		"STATEGRAFT_FILE_CQL_USERNAME=secret cql/username", "STATEGRAFT_FILE_CQL_PASSWORD=secret cql/password",
		"STATEGRAFT_FILE_TLS_CRT=secret stategraft-grpc/tls.crt", "STATEGRAFT_FILE_TLS_KEY=secret stategraft-grpc/tls.key", "STATEGRAFT_FILE_TLS_CA=secret stategraft-grpc/ca.crt")
	for what, c := range map[string]struct {
		pod                     []byte
		settings                patches.Settings
		agent, snapshot, medusa string
	}{
		"all":           {pod("", ""), all, "", want("STATEGRAFT_FILE_JMX_USERNAME=secret jmx/username", "STATEGRAFT_FILE_JMX_PASSWORD=secret jmx/password"), medusa},
		"none":          {pod("", ""), none, "", "", "STATEGRAFT_FILE_INI=configMap medusa/medusa.ini"},
		"Anna":          {anna("", ""), none, "STATEGRAFT_FILE_INI=configMap medusa/medusa.ini", "", ""},
		"Anna's config": {anna("", ""), patches.Settings{MedusaConfig: "ini", ConfigMap: "own", Resources: all.Resources}, want("STATEGRAFT_FILE_INI=configMap ini/medusa.ini", "STATEGRAFT_FILE_ANNA=configMap own/anna-config.yml"), "", ""},
	} {
		got := mustAdopt(t, c.pod, c.settings)
		for role, list := range map[patches.Role]string{patches.RoleAgent: c.agent, patches.RoleSnapshot: c.snapshot, patches.RoleMedusa: c.medusa} {
			var seen []string
			for _, content := range patches.Contents {
				if text := from(got[role.Container()], content.Env); text != "" {
					seen = append(seen, content.Env+"="+text)
				}
			}
			if strings.Join(seen, "\n") != list {
				t.Errorf("%s, %s:\n%s\nwant\n%s", what, role, strings.Join(seen, "\n"), list)
			}
		}
	}
	got := mustAdopt(t, pod("", ""), all)[patches.ContainerMedusa]
	if at := from(got, "MEDUSA_CQL_K8S_SECRETS_PATH"); at != patches.RootAdopted+patches.DirCQL {
		t.Errorf("Medusa looks for CQL's secret at %s", at)
	}
	if text := from(mustAdopt(t, pod("", ""), none)[patches.ContainerMedusa], "STATEGRAFT_GRPC_TLS"); text != "off" {
		t.Errorf("TLS is %q", text)
	}
}

func TestAdoptIdentity(t *testing.T) {
	raw := func(volume, path, env string) []byte {
		return pod(`"volumes":[{"name":"data","emptyDir":{}},{"name":"`+volume+`","projected":{}}]`,
			`"volumeMounts":[{"name":"data","mountPath":"/var/lib/cassandra"},{"name":"`+volume+`","mountPath":"`+path+`","readOnly":true}],"env":[`+env+`]`)
	}
	const eks, azure = "/var/run/secrets/eks.amazonaws.com/serviceaccount", "/var/run/secrets/azure/tokens"
	role := `{"name":"AWS_ROLE_ARN","value":"old"},{"name":"AWS_ACCESS_KEY_ID","value":"user's"},{"name":"AWS_ROLE_ARN","value":"arn:x"},{"name":"AWS_WEB_IDENTITY_TOKEN_FILE","value":"` + eks + `/token"}`
	none := patches.Default()
	none.StorageSecret = ""
	for what, c := range map[string]struct {
		pod      []byte
		settings patches.Settings
		env      map[string]string
		mounted  string
	}{
		"EKS":                     {raw("aws-iam-token", eks, role), none, map[string]string{"AWS_ROLE_ARN": "arn:x", "AWS_WEB_IDENTITY_TOKEN_FILE": eks + "/token", "AWS_ACCESS_KEY_ID": ""}, "aws-iam-token:" + eks + ":ro"},
		"EKS' other":              {raw("eks-pod-identity-token", "/t", `{"name":"AWS_CONTAINER_CREDENTIALS_FULL_URI","value":"http://x"}`), none, map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://x"}, "eks-pod-identity-token:/t:ro"},
		"Azure":                   {raw("azure-identity-token", azure, `{"name":"AZURE_CLIENT_ID","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}`), none, map[string]string{"AZURE_CLIENT_ID": "secret s/k"}, "azure-identity-token:" + azure + ":ro"},
		"credentials of its own":  {raw("aws-iam-token", eks, role), patches.Default(), map[string]string{"AWS_ROLE_ARN": ""}, ""},
		"variables and no volume": {raw("tokens", eks, role), none, map[string]string{"AWS_ROLE_ARN": ""}, ""},
	} {
		got := mustAdopt(t, c.pod, c.settings)
		for name, text := range c.env {
			if v := from(got[patches.ContainerMedusa], name); v != text {
				t.Errorf("%s: %s is %q, want %q", what, name, v, text)
			}
		}
		if m := strings.TrimPrefix(strings.TrimPrefix(mountsOf(got[patches.ContainerMedusa]), "data:/var/lib/cassandra:ro"), " "); m != c.mounted {
			t.Errorf("%s: mounted %q, want %q", what, m, c.mounted)
		}
		for _, name := range []string{patches.ContainerAgent, patches.ContainerSnapshot} {
			if text := fmt.Sprint(got[name].Env) + mountsOf(got[name]); strings.Contains(text, "AWS_") || strings.Contains(text, "-token") {
				t.Errorf("%s: %s has it too: %s", what, name, text)
			}
		}
	}
}
