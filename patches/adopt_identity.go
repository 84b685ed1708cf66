package patches

import "slices"

// Tokens of cloud identities come to pods by webhooks that look at containers as a pod is
// created, and at no ephemeral ones: EKS' two ways (aws/amazon-eks-pod-identity-webhook
// pkg/handler; names in pkg/const.go) and Azure's (Azure/azure-workload-identity
// pkg/webhook/consts.go). Google's needs neither variable nor volume.
var (
	identityVolumes = []string{"aws-iam-token", "eks-pod-identity-token", "azure-identity-token"}
	identityEnv     = []string{
		"AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_STS_REGIONAL_ENDPOINTS", "AWS_REGION", "AWS_DEFAULT_REGION",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
		"AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST",
	}
)

// identity gives a container that reaches the storage the cloud identity of the database's,
// where it has no credentials of its own.
func (b *builder) identity(c *Container) {
	main := b.main()
	if main == nil || b.s.StorageSecret != "" {
		return
	}
	found := false
	for _, m := range main.Mounts {
		if slices.Contains(identityVolumes, m.Volume) && b.pod.HasVolume(m.Volume) && m.SubPath == "" && m.SubPathExpr == "" {
			c.VolumeMounts = append(c.VolumeMounts, like(m, true))
			found = true
		}
	}
	if !found {
		return
	}
	var last []EnvVar // of entries of one name the last one counts
	for _, v := range slices.Backward(main.Env) {
		if _, have := variable(slices.Concat(c.Env, last), v.Name); have || !slices.Contains(identityEnv, v.Name) {
			continue
		}
		if copied, ok := copyEnv(main, v); ok {
			last = append(last, copied)
		}
	}
	slices.Reverse(last)
	c.Env = append(c.Env, last...)
}
