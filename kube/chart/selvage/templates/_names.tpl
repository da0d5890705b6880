{{- define "selvage.labels" -}}
app.kubernetes.io/name: selvage
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ include "selvage.version" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* selvage.version is that of the images, as a tag: a release writes - for +, which neither labels nor tags may have. */ -}}
{{- define "selvage.version" -}}
{{ .Chart.AppVersion | replace "+" "-" }}
{{- end }}

{{- define "selvage.selector" -}}
app.kubernetes.io/name: selvage
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* selvage.image is the image of (list CONTEXT IMAGE). */ -}}
{{- define "selvage.image" -}}
{{- $context := index . 0 }}{{ $image := index . 1 -}}
{{- $which := printf ":%s" (default (include "selvage.version" $context) $image.tag) -}}
{{- with $image.digest }}{{ $which = printf "@%s" . }}{{ end -}}
image: {{ print $image.repository $which | quote }}
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
