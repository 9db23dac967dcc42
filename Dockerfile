# Two stages: the first builds a virtual environment, the second has nothing but Python, that environment and a user.
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
# For the compiled core.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE ./
COPY collector collector
COPY rules rules
RUN python -m venv /opt/tasktrail \
    && /opt/tasktrail/bin/pip install --no-cache-dir --disable-pip-version-check '.[amqp]'

FROM python:${PYTHON}-slim
COPY --from=build /opt/tasktrail /opt/tasktrail
RUN useradd --system --uid 9810 --no-create-home --shell /usr/sbin/nologin tasktrail \
    && install -d -o tasktrail -g tasktrail -m 0700 /var/lib/tasktrail
ENV PATH=/opt/tasktrail/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    STATE_DIRECTORY=/var/lib/tasktrail
USER tasktrail
WORKDIR /var/lib/tasktrail
VOLUME /var/lib/tasktrail
# The listener is on 127.0.0.1:9810 unless told otherwise: containers of one pod share it, others need --listen with
# --token-file.
EXPOSE 9810
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9810/-/healthy', timeout=2)"]
# No shell in between: process 1 is the daemon itself, and gets the signals.
ENTRYPOINT ["tasktrail"]
CMD ["run"]
