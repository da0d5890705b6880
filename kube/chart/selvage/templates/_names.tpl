{{- define "selvage.labels" -}}
app.kubernetes.io/name: selvage
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "selvage.selector" -}}
app.kubernetes.io/name: selvage
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* selvage.image is the image of (list CONTEXT IMAGE). */ -}}
{{- define "selvage.image" -}}
{{- $context := index . 0 }}{{ $image := index . 1 -}}
image: {{ printf "%s:%s" $image.repository (default $context.Chart.AppVersion $image.tag) | quote }}
imagePullPolicy: {{ $context.Values.images.pullPolicy }}
{{- end }}

{{- define "selvage.pullSecrets" -}}
{{- with .Values.images.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* selvage.cilium is not empty where agents ask Cilium's. */ -}}
{{- define "selvage.cilium" -}}
{{- $set := toString .Values.node.cilium -}}
{{- if or (eq $set "true") (and (eq $set "") (.Capabilities.APIVersions.Has "cilium.io/v2")) }}true{{ end -}}
{{- end }}
