{{/*
The names of objects are fixed, whatever the release is called: the program knows
them, and two installations in one cluster would inject every pod twice.
*/}}

{{/* Labels by which Services and Deployments select; never to be changed. */}}
{{- define "stategraft.selectorLabels" -}}
app.kubernetes.io/name: stategraft
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of an object. Takes root and component. */}}
{{- define "stategraft.labels" -}}
{{ include "stategraft.selectorLabels" . }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels of a pod. Takes root and component, which is a key of the values. */}}
{{- define "stategraft.podLabels" -}}
{{ include "stategraft.selectorLabels" . }}
{{- with merge (dict) (index .root.Values .component).podLabels .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The metadata of an object in our namespace. Takes root, component, name and, optionally, annotations. */}}
{{- define "stategraft.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
{{ include "stategraft.labelsAndAnnotations" . }}
{{- end }}

{{/* The same for an object in no namespace; for a ClusterRole also aggregate, the roles that it is part of. */}}
{{- define "stategraft.clusterMetadata" -}}
name: {{ .name }}
{{ include "stategraft.labelsAndAnnotations" . }}
{{- end }}

{{- define "stategraft.labelsAndAnnotations" -}}
labels:
  {{- include "stategraft.labels" . | nindent 2 }}
  {{- range .aggregate }}
  rbac.authorization.k8s.io/aggregate-to-{{ . }}: "true"
  {{- end }}
{{- with merge (dict) (default (dict) .annotations) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "stategraft.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Nine tenths of a memory limit, so that garbage is collected rather than the
process killed. Of a limit in Mi or Gi; nothing for others.
*/}}
{{- define "stategraft.goMemoryLimit" -}}
{{- $limit := toString (dig "limits" "memory" "" .) -}}
{{- if regexMatch "^[0-9]+Mi$" $limit -}}
{{ div (mul (trimSuffix "Mi" $limit) 9) 10 }}MiB
{{- else if regexMatch "^[0-9]+Gi$" $limit -}}
{{ div (mul (trimSuffix "Gi" $limit) 1024 9) 10 }}MiB
{{- end }}
{{- end }}

{{/* What both Deployments' pods have in common. Takes root and component. */}}
{{- define "stategraft.podSpec" -}}
{{- $values := index .root.Values .component -}}
serviceAccountName: stategraft-{{ .component }}
automountServiceAccountToken: true
enableServiceLinks: false
priorityClassName: {{ .root.Values.priorityClassName | default "stategraft" }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- with $values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
# Losing one node, or one zone, should not be losing the {{ .component }}. Preferred
# only: a cluster of one node still gets all replicas.
topologySpreadConstraints:
{{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
- maxSkew: 1
  topologyKey: {{ . }}
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "stategraft.selectorLabels" $ | nindent 6 }}
  # Count each rollout by itself, or the old pods push the new ones aside.
  matchLabelKeys: [pod-template-hash]
{{- end }}
{{- end }}

{{/* What both containers have in common. Takes root and component. */}}
{{- define "stategraft.container" -}}
{{- $values := index .root.Values .component -}}
image: {{ include "stategraft.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
env:
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- with include "stategraft.goMemoryLimit" $values.resources }}
# A little under the memory limit: collect garbage rather than be killed.
- name: GOMEMLIMIT
  value: {{ . }}
{{- end }}
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  initialDelaySeconds: 10
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 3
resources:
  {{- toYaml $values.resources | nindent 2 }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{/* Egress of a NetworkPolicy to the API server and to DNS. Takes root. */}}
{{- define "stategraft.egress" -}}
# The API server is no pod, so only its ports can be named.
- ports:
  {{- range .Values.networkPolicy.egress.apiServerPorts }}
  - protocol: TCP
    port: {{ . }}
  {{- end }}
- ports:
  - protocol: UDP
    port: 53
  - protocol: TCP
    port: 53
{{- end }}
